UPDATE oncebox.deliveries SET due_at_ms = (SELECT oncebox.now_ms($2)), waits_for = NULL
WHERE waits_for = $1 AND state = 'ready'
