-- One slice, newest first: each row with what is wrong with it, if anything.
SELECT d.delivery, CASE
    WHEN NOT EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = d.key) THEN 'delivery without its event'
    WHEN d.state = 'claimed' AND (d.token IS NULL OR d.lease_until_ms IS NULL) THEN 'delivery claimed without a lease'
    WHEN d.state IN ('done', 'dead', 'superseded', 'discarded') AND d.finished_at_ms IS NULL
        THEN 'delivery ended without a time'
    END
FROM (SELECT delivery, key, state, token, lease_until_ms, finished_at_ms FROM oncebox.deliveries
      WHERE delivery < $1 ORDER BY delivery DESC LIMIT $2) d
ORDER BY d.delivery DESC
