-- Paused stays as it is: a person said so, and a restart is no answer to that.
INSERT INTO oncebox.handlers (handler, attempts, base_ms, cap_ms, lease_ms, on_dead, configured)
VALUES ($1, $2, $3, $4, $5, $6, 1)
ON CONFLICT (handler) DO UPDATE SET attempts = excluded.attempts, base_ms = excluded.base_ms, cap_ms = excluded.cap_ms,
    lease_ms = excluded.lease_ms, on_dead = excluded.on_dead, configured = 1
