SELECT e.key, e.source, e.state, CASE WHEN p.key IS NULL THEN 0 ELSE 1 END FROM (
    SELECT key, source, state FROM oncebox.events WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3
) e LEFT JOIN oncebox.payloads p ON p.key = e.key
ORDER BY e.key
