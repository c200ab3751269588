SELECT count(*) FROM oncebox.payloads
