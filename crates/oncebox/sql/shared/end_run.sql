UPDATE oncebox.retention_runs SET finished_at_ms = CAST($2 AS bigint), removed = $3, kept = $4 WHERE started_at_ms = $1
