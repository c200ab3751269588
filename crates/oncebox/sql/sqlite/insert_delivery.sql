INSERT INTO oncebox_deliveries (delivery, key, handler, state, due_at_ms, order_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
