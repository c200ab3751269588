-- Those of the messages that were removed, which lie between the first and the last of them. Both rows of a message are written
-- in one transaction, so what has no message has lost it.
DELETE FROM oncebox.outbox_contents WHERE id IN (
    SELECT c.id FROM oncebox.outbox_contents c LEFT JOIN oncebox.outbox o ON o.id = c.id
    WHERE c.id >= $1 AND c.id <= $2 AND o.id IS NULL)
