-- The beginnings of bodies, newest first, for whoever looks for a text in them.
SELECT key, substr(body, 1, CAST(CAST($4 AS bigint) AS integer)) FROM oncebox.payloads WHERE key < $1 AND key >= $2 ORDER BY key DESC LIMIT $3
