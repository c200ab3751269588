-- The rows are chosen and locked first and updated by their place, which cannot change while they are locked: by their
-- keys it took a second look at the index, and a join with FOR UPDATE OF was four times slower.
-- SKIP LOCKED, not NOWAIT: a busy row belongs to another worker and is not an error.
-- Three places are filled in: for whom (several handlers or one); which of their deliveries: claim_due.sql, or where order
-- keys matter claim_in_order.sql; and what is told of each: claimed_with_payload.sql, or where nobody reads that
-- claimed_without_payload.sql.
-- A claim beyond the attempts makes a dead letter: a crash uses one attempt, too.
-- One token for all of a claim: with the delivery's id it names this claim and no other.
WITH wanted AS MATERIALIZED (
    SELECT h.handler, h.attempts, h.on_dead, w.most, w.lease_ms, w.bytes, (SELECT oncebox.now_ms()) AS at,
           (SELECT oncebox.sure_ms($5)) AS steady, (SELECT gen_random_uuid()) AS token
    FROM {wanted} AS w (handler, most, lease_ms, bytes)
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
            {places}
        ) one))
    RETURNING d.delivery, d.token, d.key, d.handler, d.state, d.attempt, d.attempts_before, d.due_at_ms,
              d.lease_until_ms, d.order_key, d.wait_until_ms, w.bytes
)
{answer}
