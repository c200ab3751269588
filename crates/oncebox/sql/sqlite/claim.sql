-- Within an order key only the oldest runs: none while another is claimed, or an earlier one may still run. One that
-- waits for its prerequisite is not in the way: what it waits for may have the same key.
-- A claim beyond the attempts makes a dead letter: a crash uses one attempt, too.
-- {care} is which of them, by the attempts that were lost with their worker.
UPDATE oncebox_deliveries AS d
SET state = CASE WHEN attempt - attempts_before >= h.attempts THEN 'dead' ELSE 'claimed' END,
    attempt = CASE WHEN attempt - attempts_before >= h.attempts THEN attempt ELSE attempt + 1 END,
    last_error = CASE WHEN attempt - attempts_before >= h.attempts AND last_error IS NULL
                      THEN 'the attempts are used up' ELSE last_error END,
    finished_at_ms = CASE WHEN attempt - attempts_before >= h.attempts THEN ?5 END,
    token = randomblob(16), node = ?4, claimed_at_ms = ?5, lease_until_ms = ?6 + ?3
FROM oncebox_handlers h
WHERE h.handler = ?1 AND d.delivery IN (
    SELECT r.delivery FROM oncebox_deliveries r
    WHERE r.handler = ?1 AND r.state = 'ready' AND r.due_at_ms <= ?6
      AND {care}
      AND (r.order_key IS NULL OR NOT EXISTS (
          SELECT 1 FROM oncebox_deliveries o
          WHERE o.handler = r.handler AND o.order_key = r.order_key
            AND o.state IN ('ready', 'claimed', 'dead', 'held') AND o.delivery <> r.delivery
            AND (o.state = 'claimed' OR (o.key < r.key AND CASE o.state WHEN 'ready' THEN o.waits_for IS NULL
                 ELSE (SELECT on_dead FROM oncebox_handlers WHERE handler = ?1) = 'block' END))))
      AND (SELECT paused FROM oncebox_handlers WHERE handler = ?1) = 0
    ORDER BY r.due_at_ms LIMIT ?2)
RETURNING delivery, token, key, handler, state, attempt, attempts_before, due_at_ms, lease_until_ms, order_key,
          wait_until_ms
