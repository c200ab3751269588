SELECT handler, state, count(*), min(due_at_ms) FROM oncebox.deliveries GROUP BY handler, state ORDER BY handler, state
