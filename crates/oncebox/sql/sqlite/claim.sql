-- Within an order key only the oldest runs: none while another is claimed, or an earlier one may still run. One that
-- waits for its prerequisite is not in the way: what it waits for may have the same key.
-- What is looked at has a bound, however many wait behind one key: the first of what is due; and where those are not enough,
-- the heads of some keys from a place that chance chooses, so that none is left out for ever.
-- A claim beyond the attempts makes a dead letter: a crash uses one attempt, too.
-- The care is which of them, by the attempts that were lost with their worker.
UPDATE oncebox_deliveries AS d
SET state = CASE WHEN attempt - attempts_before >= h.attempts THEN 'dead' ELSE 'claimed' END,
    attempt = CASE WHEN attempt - attempts_before >= h.attempts THEN attempt ELSE attempt + 1 END,
    last_error = CASE WHEN attempt - attempts_before >= h.attempts AND last_error IS NULL
                      THEN 'the attempts are used up' ELSE last_error END,
    finished_at_ms = CASE WHEN attempt - attempts_before >= h.attempts THEN ?5 END,
    token = randomblob(16), node = ?4, claimed_at_ms = ?5, lease_until_ms = ?6 + ?3
FROM oncebox_handlers h
WHERE h.handler = ?1 AND d.delivery IN (
    SELECT r.delivery FROM (
        SELECT * FROM (SELECT r.delivery, r.key, r.order_key FROM oncebox_deliveries r
                       WHERE r.handler = ?1 AND r.state = 'ready' AND r.due_at_ms <= ?6
                         AND {lost}
                       ORDER BY r.due_at_ms LIMIT max(1000, ?2))
        UNION ALL
        SELECT * FROM (
            WITH RECURSIVE start AS MATERIALIZED (SELECT randomblob(16) AS at), upper_keys AS (
            SELECT * FROM (SELECT o.order_key AS order_key, 1 AS nth FROM oncebox_deliveries o
                           WHERE o.handler = ?1 AND o.order_key >= (SELECT at FROM start)
                             AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1)
            UNION ALL
            SELECT (SELECT o.order_key FROM oncebox_deliveries o
                    WHERE o.handler = ?1 AND o.order_key > u.order_key
                      AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1), u.nth + 1
            FROM upper_keys u WHERE u.order_key IS NOT NULL AND u.nth < 500
            ), lower_keys AS (
            SELECT * FROM (SELECT o.order_key AS order_key, 1 AS nth FROM oncebox_deliveries o
                           WHERE o.handler = ?1 AND o.order_key < (SELECT at FROM start)
                             AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1)
            UNION ALL
            SELECT (SELECT o.order_key FROM oncebox_deliveries o
                    WHERE o.handler = ?1 AND o.order_key > u.order_key AND o.order_key < (SELECT at FROM start)
                      AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1), u.nth + 1
            FROM lower_keys u WHERE u.order_key IS NOT NULL AND u.nth < 500
            )
            SELECT r.delivery, r.key, r.order_key
            FROM (SELECT order_key FROM upper_keys UNION ALL SELECT order_key FROM lower_keys) k
            CROSS JOIN oncebox_deliveries r ON r.delivery = (
                SELECT o.delivery FROM oncebox_deliveries o
                WHERE o.handler = ?1 AND o.order_key = k.order_key
                  AND o.state IN ('ready', 'claimed', 'dead', 'held') AND o.state = 'ready'
                   AND (o.waits_for IS NULL OR o.due_at_ms <= ?6)
                ORDER BY o.key LIMIT 1)
            WHERE r.due_at_ms <= ?6
              AND {lost})
    ) r
    WHERE (SELECT paused FROM oncebox_handlers WHERE handler = ?1) = 0 AND (r.order_key IS NULL OR (
        NOT EXISTS (SELECT 1 FROM oncebox_deliveries o
                    WHERE o.handler = ?1 AND o.order_key = r.order_key AND o.order_key IS NOT NULL AND o.state = 'claimed')
        AND NOT EXISTS (SELECT 1 FROM oncebox_deliveries o
                        WHERE o.handler = ?1 AND o.order_key = r.order_key AND o.order_key IS NOT NULL AND o.key < r.key
                          AND o.state IN ('ready', 'claimed', 'dead', 'held')
                          AND CASE o.state WHEN 'ready' THEN o.waits_for IS NULL
                               ELSE (SELECT on_dead FROM oncebox_handlers WHERE handler = ?1) = 'block' END)))
    LIMIT ?2)
RETURNING delivery, token, key, handler, state, attempt, attempts_before, due_at_ms, lease_until_ms, order_key,
          wait_until_ms
