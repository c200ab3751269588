-- By handler and state: what is claimed, dead or held, the newest $1 of each.
SELECT handler, state, count(*) FROM (
    SELECT handler, state FROM (SELECT handler, state FROM oncebox.deliveries WHERE state = 'claimed' LIMIT $1) claimed
    UNION ALL
    SELECT handler, state FROM (SELECT handler, state FROM oncebox.deliveries
        WHERE state = 'dead' AND state IN ('dead', 'held') ORDER BY delivery DESC LIMIT $1) dead
    UNION ALL
    SELECT handler, state FROM (SELECT handler, state FROM oncebox.deliveries
        WHERE state = 'held' AND state IN ('dead', 'held') ORDER BY delivery DESC LIMIT $1) held
) stopped GROUP BY handler, state ORDER BY handler, state
