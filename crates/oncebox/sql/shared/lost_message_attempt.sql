INSERT INTO oncebox.outbox_attempts (id, attempt, node, started_at_ms, ended_at_ms, outcome, error)
VALUES ($1, $2, $3, $4, (SELECT oncebox.now_ms($5)), 'lost', $6) ON CONFLICT (id, attempt) DO NOTHING
