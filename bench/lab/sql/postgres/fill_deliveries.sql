COPY oncebox.deliveries (delivery, key, handler, state, attempt, due_at_ms, token, lease_until_ms, claimed_at_ms, finished_at_ms)
FROM STDIN (FORMAT binary)
