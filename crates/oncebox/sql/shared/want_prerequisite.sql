-- Touching the row locks it, so that nobody does what we wait for between our look and our waiting.
INSERT INTO oncebox.prerequisites AS p (mark, touched_at_ms) VALUES ($1, (SELECT oncebox.now_ms($2)))
ON CONFLICT (mark) DO UPDATE SET touched_at_ms = excluded.touched_at_ms RETURNING done_at_ms
