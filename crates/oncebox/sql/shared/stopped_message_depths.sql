-- By destination and state: what is claimed or dead, up to $1 of each.
SELECT destination, state, count(*) FROM (
    SELECT destination, state FROM (SELECT destination, state FROM oncebox.outbox WHERE state = 'claimed' LIMIT $1) claimed
    UNION ALL
    SELECT destination, state FROM (SELECT destination, state FROM oncebox.outbox
        WHERE state = 'dead' ORDER BY id DESC LIMIT $1) dead
) stopped GROUP BY destination, state ORDER BY destination, state
