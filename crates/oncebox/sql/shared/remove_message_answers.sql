-- Those of a message that is over for good, or gone.
DELETE FROM oncebox.outbox_answers WHERE id IN (
    SELECT a.id FROM oncebox.outbox_answers a LEFT JOIN oncebox.outbox o ON o.id = a.id
    WHERE a.id < $1 AND (o.id IS NULL OR o.state IN ('sent', 'discarded')) ORDER BY a.id LIMIT $2)
