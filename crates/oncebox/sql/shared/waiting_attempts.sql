-- How many deliveries wait for their next attempt, by the index of what is ready: handler by handler. One that waits for
-- a prerequisite is none of them. $1 and $6 bound the keys of the deliveries, $8 is their event where one is named.
SELECT count(*) FROM oncebox.handlers known CROSS JOIN oncebox.deliveries d
WHERE d.handler = known.handler AND d.state = 'ready' AND d.due_at_ms > (SELECT oncebox.steady_ms($10, $9))
  AND d.waits_for IS NULL AND d.delivery > $1 AND d.delivery <= $6
  AND (CAST($7 AS text) IS NULL OR d.handler = $7)
  AND (CAST($8 AS /*postgres*/uuid/*sqlite blob*/) IS NULL OR d.key = $8)
  AND EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = d.key
      AND (CAST($2 AS text) IS NULL OR e.source = $2)
      AND (CAST($3 AS text) IS NULL OR e.type /*postgres*/LIKE $3 ESCAPE '!'/*sqlite GLOB $3*/)
      AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
      AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5))
