-- As messages_floor among dead ones, through the index that has only those.
SELECT id FROM oncebox.outbox WHERE state = 'dead' AND id < $1 ORDER BY id DESC LIMIT 1 OFFSET $2
