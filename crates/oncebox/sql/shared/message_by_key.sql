SELECT id, delivery_attempt, delivery_token FROM oncebox.outbox WHERE idempotency_key = $1
