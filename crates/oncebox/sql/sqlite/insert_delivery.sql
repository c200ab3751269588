INSERT INTO oncebox_deliveries (delivery, key, handler, state, due_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)
