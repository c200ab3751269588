DELETE FROM oncebox.repeats WHERE key = $1
