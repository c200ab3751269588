-- Every node does this; whoever comes second finds nothing. An attempt whose relay went silent counts.
UPDATE oncebox.outbox AS m
SET state = CASE WHEN attempt - attempts_before >= coalesce((SELECT t.attempts FROM oncebox.destinations t
                     WHERE t.destination = m.destination), 1000000) THEN 'dead' ELSE 'ready' END,
    due_at_ms = (SELECT oncebox.steady_ms($4, $1)), last_error = $3
WHERE state = 'claimed' AND id IN (
    SELECT id FROM oncebox.outbox
    WHERE state = 'claimed' AND lease_until_ms < (SELECT oncebox.sure_ms($4, $1))
    ORDER BY lease_until_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING id, destination, state, attempt, node, claimed_at_ms
