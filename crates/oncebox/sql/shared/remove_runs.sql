DELETE FROM oncebox.retention_runs WHERE started_at_ms IN (
    SELECT started_at_ms FROM oncebox.retention_runs WHERE started_at_ms < $1 LIMIT $2)
