-- As claim_due.sql, with a bound on what is looked at, however many wait behind one key: the first of what is due; and where
-- those are not enough, the heads of some keys from a place that chance (the token) chooses, so that none is left out for
-- ever. They are chosen before they are locked, more than are wanted, for others may have locked some.
-- The care is which of them, by the attempts that were lost with their worker.
SELECT l.ctid AS place FROM oncebox.deliveries l
WHERE l.state = 'ready' AND l.ctid = ANY(ARRAY(
    SELECT d.place FROM (
        (SELECT d.ctid AS place, d.key, d.order_key FROM oncebox.deliveries d
         WHERE d.handler = h.handler AND d.state = 'ready' AND d.due_at_ms <= h.steady
           AND {lost}
         ORDER BY d.due_at_ms LIMIT 1000)
        UNION ALL
        (WITH RECURSIVE upper_keys AS (
            (SELECT o.order_key, 1 AS nth FROM oncebox.deliveries o
             WHERE o.handler = h.handler AND o.order_key >= h.token
               AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1)
            UNION ALL
            SELECT (SELECT o.order_key FROM oncebox.deliveries o
                    WHERE o.handler = h.handler AND o.order_key > u.order_key
                      AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1), u.nth + 1
            FROM upper_keys u WHERE u.order_key IS NOT NULL AND u.nth < 500
         ), lower_keys AS (
            (SELECT o.order_key, 1 AS nth FROM oncebox.deliveries o
             WHERE o.handler = h.handler AND o.order_key < h.token
               AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1)
            UNION ALL
            SELECT (SELECT o.order_key FROM oncebox.deliveries o
                    WHERE o.handler = h.handler AND o.order_key > u.order_key AND o.order_key < h.token
                      AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1), u.nth + 1
            FROM lower_keys u WHERE u.order_key IS NOT NULL AND u.nth < 500
         )
         SELECT d.place, d.key, d.order_key
         FROM (SELECT order_key FROM upper_keys UNION ALL SELECT order_key FROM lower_keys) k
         CROSS JOIN LATERAL (
            SELECT o.ctid AS place, o.key, o.order_key, o.due_at_ms, o.lost, o.attempt, o.attempts_before
            FROM oncebox.deliveries o
            WHERE o.handler = h.handler AND o.order_key = k.order_key
              AND o.state IN ('ready', 'claimed', 'dead', 'held') AND o.state = 'ready'
              AND (o.waits_for IS NULL OR o.due_at_ms <= h.steady)
            ORDER BY o.key LIMIT 1) d
         WHERE k.order_key IS NOT NULL AND d.due_at_ms <= h.steady
           AND {lost})
    ) d
    WHERE d.order_key IS NULL OR (
        NOT EXISTS (SELECT 1 FROM oncebox.deliveries o
                    WHERE o.handler = h.handler AND o.order_key = d.order_key AND o.state = 'claimed')
        AND NOT EXISTS (SELECT 1 FROM oncebox.deliveries o
                        WHERE o.handler = h.handler AND o.order_key = d.order_key AND o.key < d.key
                          AND o.state IN ('ready', 'claimed', 'dead', 'held')
                          AND CASE o.state WHEN 'ready' THEN o.waits_for IS NULL ELSE h.on_dead = 'block' END))
    LIMIT h.most * 4))
ORDER BY l.due_at_ms LIMIT h.most FOR UPDATE SKIP LOCKED
