-- The key decides: a message that is there already stays as it is.
INSERT INTO oncebox.outbox (id, destination, idempotency_key, path, method, headers, body, order_key, key, delivery,
                            handler, step, delivery_attempt, delivery_token, due_at_ms, created_at_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, (SELECT oncebox.steady_ms($16, $15)),
        (SELECT oncebox.now_ms($15)))
ON CONFLICT (idempotency_key) DO NOTHING
