-- A message's key is made when it is written, and begins with the time.
DELETE FROM oncebox.outbox WHERE id IN (
    SELECT id FROM oncebox.outbox WHERE id < $1 AND state IN ('sent', 'discarded') ORDER BY id LIMIT $2)
RETURNING id
