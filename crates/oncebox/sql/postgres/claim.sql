-- The rows are chosen and locked first and updated by their place, which cannot change while they are locked: by their
-- keys it took a second look at the index, and a join with FOR UPDATE OF was four times slower.
-- SKIP LOCKED, not NOWAIT: a busy row belongs to another worker and is not an error.
-- Within an order key only the oldest runs: none while another is claimed, or an earlier one may still run. One that
-- waits for its prerequisite is not in the way: what it waits for may have the same key.
-- A claim beyond the attempts makes a dead letter: a crash uses one attempt, too.
-- One token for all of a claim: with the delivery's id it names this claim and no other.
-- {care} is which of them, by the attempts that were lost with their worker.
WITH wanted AS MATERIALIZED (
    SELECT h.handler, h.attempts, h.on_dead, w.most, w.lease_ms, (SELECT oncebox.now_ms()) AS at,
           (SELECT oncebox.sure_ms($5)) AS steady,           (SELECT gen_random_uuid()) AS token
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS w (handler, most, lease_ms)
    JOIN oncebox.handlers h ON h.handler = w.handler AND h.paused = 0
), claimed AS (
    UPDATE oncebox.deliveries d
    SET state = CASE WHEN d.attempt - d.attempts_before >= w.attempts THEN 'dead' ELSE 'claimed' END,
        attempt = CASE WHEN d.attempt - d.attempts_before >= w.attempts THEN d.attempt ELSE d.attempt + 1 END,
        last_error = CASE WHEN d.attempt - d.attempts_before >= w.attempts AND d.last_error IS NULL
                          THEN 'the attempts are used up' ELSE d.last_error END,
        finished_at_ms = CASE WHEN d.attempt - d.attempts_before >= w.attempts THEN w.at END,
        token = w.token, node = $4, claimed_at_ms = w.at, lease_until_ms = w.steady + w.lease_ms
    FROM wanted w
    WHERE d.handler = w.handler AND d.ctid = ANY(ARRAY(
        SELECT one.place FROM wanted h CROSS JOIN LATERAL (
            SELECT d.ctid AS place FROM oncebox.deliveries d
            WHERE d.handler = h.handler AND d.state = 'ready' AND d.due_at_ms <= h.steady
              AND {care}
              AND (d.order_key IS NULL OR NOT EXISTS (
                  SELECT 1 FROM oncebox.deliveries o
                  WHERE o.handler = d.handler AND o.order_key = d.order_key
                    AND o.state IN ('ready', 'claimed', 'dead', 'held') AND o.delivery <> d.delivery
                    AND (o.state = 'claimed' OR (o.key < d.key AND CASE o.state WHEN 'ready' THEN o.waits_for IS NULL
                         ELSE h.on_dead = 'block' END))))
            ORDER BY d.due_at_ms LIMIT h.most FOR UPDATE SKIP LOCKED
        ) one))
    RETURNING d.delivery, d.token, d.key, d.handler, d.state, d.attempt, d.attempts_before, d.due_at_ms,
              d.lease_until_ms, d.order_key, d.wait_until_ms
)
SELECT c.delivery, c.token, c.key, c.handler, c.state, c.attempt, c.attempts_before, c.due_at_ms, c.lease_until_ms,
       c.order_key, c.wait_until_ms, e.source, e.event_id, e.type, e.received_at_ms, p.headers, p.body
FROM claimed c JOIN oncebox.events e ON e.key = c.key LEFT JOIN oncebox.payloads p ON p.key = c.key
ORDER BY c.due_at_ms, c.key
