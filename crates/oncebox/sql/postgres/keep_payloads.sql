INSERT INTO oncebox.payloads (key, remote, headers, body)
SELECT key, remote, headers, body FROM oncebox.{name} WHERE key = ANY($1)
