-- The last of the messages below $1 that one page may look at.
SELECT id FROM oncebox.outbox WHERE id < $1 ORDER BY id DESC LIMIT 1 OFFSET $2
