SELECT delivery, handler, state, attempt, due_at_ms, finished_at_ms, last_error FROM oncebox.deliveries WHERE key = $1 ORDER BY handler
