SELECT id, destination, idempotency_key, state, attempt, created_at_ms, sent_at_ms,
       CASE WHEN state = 'ready' THEN due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, status, last_error, key, handler, step
FROM oncebox.outbox WHERE key = $1 AND key IS NOT NULL ORDER BY id DESC LIMIT $2
