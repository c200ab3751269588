SELECT count(*) FROM oncebox.events WHERE key >= $1
