INSERT INTO oncebox.payloads (key, method, path, query, remote, headers, body)
SELECT key, method, path, query, remote, headers, body FROM oncebox.{name} WHERE key = ANY($1)
