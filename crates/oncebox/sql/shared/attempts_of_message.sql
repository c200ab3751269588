SELECT attempt, node, started_at_ms, ended_at_ms, outcome, status, error FROM oncebox.outbox_attempts
WHERE id = $1 ORDER BY attempt
