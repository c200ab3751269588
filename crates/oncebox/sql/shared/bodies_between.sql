-- The beginnings of bodies, newest first, for whoever looks for a text in them.
-- SQLite knows no part of an empty body.
SELECT key, coalesce(substr(body, 1, CAST(CAST($4 AS bigint) AS integer)), body) FROM oncebox.payloads WHERE key < $1 AND key >= $2 ORDER BY key DESC LIMIT $3
