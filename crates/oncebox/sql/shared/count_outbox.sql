SELECT destination, state, count(*) FROM oncebox.outbox GROUP BY destination, state ORDER BY destination, state
