SELECT m.id, m.destination, k.idempotency_key, m.state, m.attempt, m.created_at_ms, m.sent_at_ms,
       CASE WHEN m.state = 'ready' THEN m.due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, m.status,
       m.last_error, k.key, m.handler, k.step, k.method, k.path, k.headers, k.body, m.order_key, a.body
FROM oncebox.outbox m JOIN oncebox.outbox_contents k ON k.id = m.id
LEFT JOIN oncebox.outbox_answers a ON a.id = m.id WHERE m.id = $1
