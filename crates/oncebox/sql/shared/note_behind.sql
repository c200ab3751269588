UPDATE oncebox.retention SET behind_ms = $1, behind_at_ms = $2
