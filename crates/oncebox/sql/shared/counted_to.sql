UPDATE oncebox.retention SET counted_to = $1
