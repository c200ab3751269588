-- What was not sent never will be.
UPDATE oncebox.outbox
SET size = 0, order_key = NULL,
    last_error = CASE WHEN state IN ('sent', 'discarded') AND last_error IS NULL THEN NULL ELSE 'erased' END,
    state = CASE WHEN state IN ('sent', 'discarded') THEN state ELSE 'discarded' END, lease_until_ms = NULL
WHERE id IN (SELECT c.id FROM oncebox.outbox_contents c WHERE c.key = $1)
