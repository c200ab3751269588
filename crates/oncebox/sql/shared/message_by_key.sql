SELECT id, delivery_attempt FROM oncebox.outbox WHERE idempotency_key = $1
