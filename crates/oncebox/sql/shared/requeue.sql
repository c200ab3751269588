UPDATE oncebox.deliveries
SET state = 'ready', attempts_before = attempt, due_at_ms = (SELECT oncebox.steady_ms($3, $2)), finished_at_ms = NULL
WHERE delivery = $1 AND state = 'done'
