-- A clean stop of a node at which nothing runs any more: whatever is still claimed by it was never begun, because the
-- answer to its claim was lost. Back in line, and the attempt was none.
UPDATE oncebox.deliveries
SET state = 'ready', attempt = attempt - 1, lease_until_ms = NULL, due_at_ms = (SELECT oncebox.steady_ms($3, $2))
WHERE state = 'claimed' AND node = $1
