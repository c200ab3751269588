-- Newest first. Every filter is optional: a null leaves it out.
SELECT d.delivery, d.key, e.source, e.event_id, e.type, d.handler, d.state, d.attempt, d.due_at_ms, d.finished_at_ms,
       d.last_error
FROM oncebox.deliveries d JOIN oncebox.events e ON e.key = d.key
WHERE d.delivery < $1
  AND (CAST($2 AS text) IS NULL OR d.state = $2)
  AND (CAST($3 AS text) IS NULL OR d.handler = $3)
  AND (CAST($4 AS text) IS NULL OR e.source = $4)
ORDER BY d.delivery DESC LIMIT $5
