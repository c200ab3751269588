INSERT INTO oncebox.outbox_answers (id, at_ms, body)
SELECT a.id, (SELECT oncebox.now_ms()), a.body FROM unnest($1::uuid[], $2::bytea[]) AS a (id, body)
ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body
