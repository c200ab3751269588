-- Whoever comes second waits for the first one's end: its commit makes this a repeat, its rollback makes it the first.
INSERT INTO oncebox.remembered (mark, at_ms) VALUES ($1, (SELECT oncebox.now_ms($2))) ON CONFLICT (mark) DO NOTHING
