-- One slice, in the order of the ids: what waits for its next attempt is due now. What is claimed meanwhile is left alone.
UPDATE oncebox.outbox SET due_at_ms = (SELECT oncebox.steady_ms($9, $7))
WHERE state = 'ready' AND id IN (
    SELECT m.id FROM oncebox.destinations known CROSS JOIN oncebox.outbox m
    WHERE m.destination = known.destination AND m.state = 'ready' AND m.due_at_ms > (SELECT oncebox.steady_ms($9, $7))
      AND m.id > $1 AND m.id <= $6
      AND (CAST($2 AS text) IS NULL OR m.destination = $2)
      AND (CAST($3 AS text) IS NULL OR m.handler = $3)
      AND (CAST($4 AS bigint) IS NULL OR m.created_at_ms >= $4)
      AND (CAST($5 AS bigint) IS NULL OR m.created_at_ms < $5)
    ORDER BY m.id LIMIT $8)
RETURNING id
