-- As outbox_page for dead ones, through the index that has only those: most of the table is sent.
SELECT m.id, m.destination, k.idempotency_key, m.state, m.attempt, m.created_at_ms, m.sent_at_ms,
       CASE WHEN m.state = 'ready' THEN m.due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, m.status,
       m.last_error, k.key, m.handler, k.step
FROM oncebox.outbox m JOIN oncebox.outbox_contents k ON k.id = m.id
WHERE m.id < $1 AND m.id >= $9 AND m.state = $2 AND m.state = 'dead'
  AND (CAST($3 AS text) IS NULL OR m.destination = $3)
  AND (CAST($4 AS text) IS NULL OR m.handler = $4)
  AND (CAST($5 AS bigint) IS NULL OR m.created_at_ms >= $5)
  AND (CAST($6 AS bigint) IS NULL OR m.created_at_ms < $6)
  AND (CAST($7 AS /*postgres*/uuid/*sqlite blob*/) IS NULL OR k.key = $7)
ORDER BY m.id DESC LIMIT $8
