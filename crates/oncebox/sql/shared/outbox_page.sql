-- Newest first. Every filter is optional: a null leaves it out. $9 is how far back this page looks.
SELECT id, destination, idempotency_key, state, attempt, created_at_ms, sent_at_ms,
       CASE WHEN state = 'ready' THEN due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, status, last_error, key, handler, step
FROM oncebox.outbox
WHERE id < $1 AND id >= $9
  AND (CAST($2 AS text) IS NULL OR state = $2)
  AND (CAST($3 AS text) IS NULL OR destination = $3)
  AND (CAST($4 AS text) IS NULL OR handler = $4)
  AND (CAST($5 AS bigint) IS NULL OR created_at_ms >= $5)
  AND (CAST($6 AS bigint) IS NULL OR created_at_ms < $6)
  AND (CAST($7 AS /*postgres*/uuid/*sqlite blob*/) IS NULL OR key = $7)
ORDER BY id DESC LIMIT $8
