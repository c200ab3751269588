INSERT INTO oncebox.retention_runs (started_at_ms) VALUES ($1) ON CONFLICT (started_at_ms) DO NOTHING
