-- The newest $1 messages by destination and state.
SELECT destination, state, count(*), NULL
FROM (SELECT destination, state FROM oncebox.outbox WHERE id < $2 ORDER BY id DESC LIMIT $1) newest
GROUP BY destination, state ORDER BY destination, state
