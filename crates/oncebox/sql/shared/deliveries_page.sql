-- Newest first. Every filter is optional: a null leaves it out. $10 is how far back this page looks; $11 and $12 bound
-- the keys that the events of these deliveries can have.
SELECT d.delivery, d.handler, d.state, d.attempt,
       CASE WHEN d.state = 'ready' THEN d.due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, d.finished_at_ms, d.last_error, NULL,
       d.key, e.source, e.event_id, e.type
FROM oncebox.deliveries d JOIN oncebox.events e ON e.key = d.key AND e.key >= $11 AND e.key <= $12
WHERE d.delivery < $1 AND d.delivery >= $10
  AND (CAST($2 AS text) IS NULL OR d.state = $2)
  AND (CAST($3 AS text) IS NULL OR d.handler = $3)
  AND (CAST($4 AS text) IS NULL OR e.source = $4)
  AND (CAST($5 AS text) IS NULL OR e.type LIKE $5 ESCAPE '!')
  AND (CAST($6 AS bigint) IS NULL OR e.received_at_ms >= $6)
  AND (CAST($7 AS bigint) IS NULL OR e.received_at_ms < $7)
  AND (CAST($8 AS /*postgres*/uuid/*sqlite blob*/) IS NULL OR d.key = $8)
ORDER BY d.delivery DESC LIMIT $9
