INSERT INTO oncebox.prerequisites (mark, done_at_ms, touched_at_ms)
VALUES ($1, (SELECT oncebox.now_ms($2)), (SELECT oncebox.now_ms($2)))
ON CONFLICT (mark) DO UPDATE SET done_at_ms = excluded.done_at_ms, touched_at_ms = excluded.touched_at_ms
