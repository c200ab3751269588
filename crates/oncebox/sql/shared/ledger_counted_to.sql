SELECT counted_to FROM oncebox.retention
