-- What an idle node asks, for deliveries and messages: one read for the time, whether a lease has ended, and whether there
-- are other processes of its name.
SELECT (SELECT oncebox.now_ms($1)), c.offset_ms, c.seen_ms, c.settled,
       CAST(CASE WHEN EXISTS (SELECT 1 FROM oncebox.deliveries d
                              WHERE d.state = 'claimed' AND d.lease_until_ms < (SELECT oncebox.sure_ms($5, $1)))
                   OR EXISTS (SELECT 1 FROM oncebox.outbox m
                              WHERE m.state = 'claimed' AND m.lease_until_ms < (SELECT oncebox.sure_ms($5, $1)))
                 THEN 1 ELSE 0 END AS bigint),
       (SELECT count(*) FROM oncebox.nodes n WHERE n.node <> $2
            AND (n.name = CAST($3 AS text) OR substr(n.name, 1, length(CAST($4 AS text))) = CAST($4 AS text)))
FROM oncebox.steady_clock c
