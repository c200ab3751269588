DELETE FROM oncebox.payloads WHERE key = ANY($1)
