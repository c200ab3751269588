-- The oldest payloads, and what decides over them. Payloads are read by their key alone, never their bytes.
SELECT p.key, e.source, e.state FROM (
    SELECT key FROM oncebox.payloads WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3
) p LEFT JOIN oncebox.events e ON e.key = p.key
ORDER BY p.key
