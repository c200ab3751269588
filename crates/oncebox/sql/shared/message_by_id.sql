SELECT m.id, m.destination, m.idempotency_key, m.state, m.attempt, m.created_at_ms, m.sent_at_ms,
       CASE WHEN m.state = 'ready' THEN m.due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, m.status, m.last_error, m.key, m.handler, m.step, m.method, m.path, m.headers, m.body, m.order_key, a.body
FROM oncebox.outbox m LEFT JOIN oncebox.outbox_answers a ON a.id = m.id WHERE m.id = $1
