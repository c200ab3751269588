-- The claims of a process that is proved dead.
UPDATE oncebox.outbox AS m
SET state = CASE WHEN attempt - attempts_before >= coalesce((SELECT t.attempts FROM oncebox.destinations t
                     WHERE t.destination = m.destination), 1000000) THEN 'dead' ELSE 'ready' END,
    due_at_ms = (SELECT oncebox.steady_ms($5, $1)), last_error = $3
WHERE state = 'claimed' AND id IN (
    SELECT id FROM oncebox.outbox
    WHERE state = 'claimed'
      AND node = $4
    ORDER BY lease_until_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING id, destination, state, attempt, node, claimed_at_ms
