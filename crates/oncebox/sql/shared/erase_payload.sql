DELETE FROM oncebox.payloads WHERE key = $1
