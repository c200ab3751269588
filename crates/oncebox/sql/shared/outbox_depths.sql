-- Only what waits or is stopped: what was sent is most of the table.
SELECT destination, state, count(*) FROM oncebox.outbox WHERE state IN ('ready', 'claimed', 'dead')
GROUP BY destination, state ORDER BY destination, state
