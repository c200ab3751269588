DELETE FROM oncebox.events WHERE key = ANY($1)
