SELECT started_at_ms, finished_at_ms, removed, kept FROM oncebox.retention_runs ORDER BY started_at_ms DESC LIMIT $1
