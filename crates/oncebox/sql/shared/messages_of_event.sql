SELECT m.id, m.destination, k.idempotency_key, m.state, m.attempt, m.created_at_ms, m.sent_at_ms,
       CASE WHEN m.state = 'ready' THEN m.due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, m.status,
       m.last_error, k.key, m.handler, k.step
FROM oncebox.outbox m JOIN oncebox.outbox_contents k ON k.id = m.id
WHERE k.key = $1 AND k.key IS NOT NULL ORDER BY m.id DESC LIMIT $2
