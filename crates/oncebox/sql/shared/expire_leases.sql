-- Every node does this; whoever comes second finds nothing. An attempt whose worker went silent counts.
UPDATE oncebox.deliveries AS d
SET state = CASE WHEN attempt - attempts_before >= coalesce((SELECT h.attempts FROM oncebox.handlers h
                     WHERE h.handler = d.handler), 1000000) THEN 'dead' ELSE 'ready' END,
    finished_at_ms = CASE WHEN attempt - attempts_before >= coalesce((SELECT h.attempts FROM oncebox.handlers h
                     WHERE h.handler = d.handler), 1000000) THEN (SELECT oncebox.now_ms($1)) END,
    due_at_ms = (SELECT oncebox.steady_ms($4, $1)), last_error = $3, lost = lost + 1
WHERE state = 'claimed' AND delivery IN (
    SELECT delivery FROM oncebox.deliveries
    WHERE state = 'claimed' AND lease_until_ms < (SELECT oncebox.sure_ms($4, $1))
    ORDER BY lease_until_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING delivery, key, handler, state, attempt, node, claimed_at_ms,
          -- SQLite knows the row here by no other name than its columns' own.
          (SELECT x.source FROM (SELECT e.key AS event, e.source FROM oncebox.events e) x WHERE x.event = key),
          (SELECT x.event_id FROM (SELECT e.key AS event, e.event_id FROM oncebox.events e) x WHERE x.event = key)
