INSERT INTO oncebox_payloads (key, remote, headers, body) VALUES (?1, ?2, ?3, ?4)
