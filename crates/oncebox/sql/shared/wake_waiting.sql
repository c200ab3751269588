UPDATE oncebox.deliveries SET due_at_ms = (SELECT oncebox.steady_ms($3, $2)), waits_for = NULL
WHERE waits_for = $1 AND state = 'ready'
