SELECT EXISTS (SELECT 1 FROM oncebox.payloads_rest WHERE key >= $1 AND key < $2)
