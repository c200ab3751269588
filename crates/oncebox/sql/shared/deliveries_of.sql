-- $2 and $3 bound the keys that deliveries of the event can have.
SELECT delivery, handler, state, attempt,
       CASE WHEN state = 'ready' THEN due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c) END, finished_at_ms, last_error, claimed_at_ms
FROM oncebox.deliveries WHERE key = $1 AND delivery BETWEEN $2 AND $3 ORDER BY handler
