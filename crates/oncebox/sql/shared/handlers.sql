SELECT handler, paused, attempts, base_ms, cap_ms, lease_ms, on_dead FROM oncebox.handlers ORDER BY handler
