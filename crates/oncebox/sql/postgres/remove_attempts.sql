DELETE FROM oncebox.attempts WHERE delivery = ANY($1)
