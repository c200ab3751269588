-- How many messages wait for their next attempt, by the index of what is ready: destination by destination.
SELECT count(*) FROM oncebox.destinations known CROSS JOIN oncebox.outbox m
WHERE m.destination = known.destination AND m.state = 'ready' AND m.due_at_ms > (SELECT oncebox.steady_ms($8, $7))
  AND m.id > $1 AND m.id <= $6
  AND (CAST($2 AS text) IS NULL OR m.destination = $2)
  AND (CAST($3 AS text) IS NULL OR m.handler = $3)
  AND (CAST($4 AS bigint) IS NULL OR m.created_at_ms >= $4)
  AND (CAST($5 AS bigint) IS NULL OR m.created_at_ms < $5)
