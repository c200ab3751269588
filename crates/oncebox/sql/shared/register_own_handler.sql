-- Of an application. What a config says about the handler stays, above all what a dead delivery does to later ones.
INSERT INTO oncebox.handlers AS h (handler, attempts, base_ms, cap_ms, lease_ms, on_dead)
VALUES ($1, $2, $3, $4, $5, 'skip')
ON CONFLICT (handler) DO UPDATE SET attempts = excluded.attempts, base_ms = excluded.base_ms, cap_ms = excluded.cap_ms,
    lease_ms = excluded.lease_ms
WHERE h.configured = 0
