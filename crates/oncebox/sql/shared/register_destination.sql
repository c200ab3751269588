INSERT INTO oncebox.destinations (destination, attempts, ordered) VALUES ($1, $2, $3)
ON CONFLICT (destination) DO UPDATE SET attempts = excluded.attempts, ordered = excluded.ordered
