INSERT INTO oncebox_outbox_answers (id, at_ms, body) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body
