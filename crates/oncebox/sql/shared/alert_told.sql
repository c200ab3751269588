INSERT INTO oncebox.alerts (receiver, condition, since_ms, told_at_ms, told_value) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (receiver, condition) DO UPDATE SET told_at_ms = excluded.told_at_ms, told_value = excluded.told_value
