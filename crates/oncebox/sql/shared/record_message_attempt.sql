-- Only while the token is the current one; no row means that the lease was lost.
INSERT INTO oncebox.outbox_attempts (id, attempt, node, started_at_ms, ended_at_ms, outcome, status, error)
SELECT id, attempt, node, claimed_at_ms, (SELECT oncebox.now_ms($3)), CAST($4 AS text), CAST($5 AS bigint),
       CAST($6 AS text)
FROM oncebox.outbox WHERE id = $1 AND token = $2 AND state = 'claimed'
ON CONFLICT (id, attempt) DO UPDATE SET
    ended_at_ms = excluded.ended_at_ms, outcome = excluded.outcome, status = excluded.status, error = excluded.error
