INSERT INTO oncebox.outbox_answers (id, at_ms, body) VALUES ($1, (SELECT oncebox.now_ms($2)), $3)
ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body
