-- As give_back_all.sql, for the node's relay.
UPDATE oncebox.outbox
SET state = 'ready', attempt = attempt - 1, lease_until_ms = NULL, due_at_ms = (SELECT oncebox.steady_ms($3, $2))
WHERE state = 'claimed' AND node = $1
