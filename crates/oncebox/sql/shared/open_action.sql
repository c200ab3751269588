INSERT INTO oncebox.actions (action, kind, filter, who, counted, reached, started_at_ms)
VALUES ($1, $2, $3, $4, $5, $6, (SELECT oncebox.now_ms($7))) ON CONFLICT (action) DO NOTHING
