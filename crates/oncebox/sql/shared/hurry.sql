-- One slice, in the order of the keys: what waits for its next attempt is due now. What is claimed meanwhile is left alone.
UPDATE oncebox.deliveries SET due_at_ms = (SELECT oncebox.steady_ms($11, $9))
WHERE state = 'ready' AND delivery IN (
    SELECT d.delivery FROM oncebox.handlers known CROSS JOIN oncebox.deliveries d
    WHERE d.handler = known.handler AND d.state = 'ready' AND d.due_at_ms > (SELECT oncebox.steady_ms($11, $9))
      AND d.waits_for IS NULL AND d.delivery > $1 AND d.delivery <= $6
      AND (CAST($7 AS text) IS NULL OR d.handler = $7)
      AND (CAST($8 AS /*postgres*/uuid/*sqlite blob*/) IS NULL OR d.key = $8)
      AND EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = d.key
          AND (CAST($2 AS text) IS NULL OR e.source = $2)
          AND (CAST($3 AS text) IS NULL OR e.type /*postgres*/LIKE $3 ESCAPE '!'/*sqlite GLOB $3*/)
          AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
          AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5))
    ORDER BY d.delivery LIMIT $10)
RETURNING delivery
