-- One slice of an action, in the order of the keys. A replay or release gives a fresh budget of attempts. $1 and $6 bound
-- the keys of the deliveries, $13 is their event where one is named. A row that somebody holds is waited for: the next
-- slice begins behind it.
UPDATE oncebox.deliveries
SET state = CAST($10 AS text), waits_for = NULL, wait_until_ms = NULL,
    attempts_before = CASE WHEN CAST($10 AS text) = 'ready' THEN attempt ELSE attempts_before END,
    due_at_ms = CASE WHEN CAST($10 AS text) = 'ready' THEN (SELECT oncebox.steady_ms($14, $11)) ELSE due_at_ms END,
    finished_at_ms = CASE WHEN CAST($10 AS text) = 'ready' THEN NULL ELSE (SELECT oncebox.now_ms($11)) END
WHERE delivery IN (
    SELECT d.delivery FROM oncebox.deliveries d
    WHERE d.delivery > $1 AND d.delivery <= $6 AND d.state IN ($8, $9) AND d.state IN ('dead', 'held')
      AND (CAST($7 AS text) IS NULL OR d.handler = $7)
      AND (CAST($13 AS /*postgres*/uuid/*sqlite blob*/) IS NULL OR d.key = $13)
      AND EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = d.key
          AND (CAST($2 AS text) IS NULL OR e.source = $2)
          AND (CAST($3 AS text) IS NULL OR e.type /*postgres*/LIKE $3 ESCAPE '!'/*sqlite GLOB $3*/)
          AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
          AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5))
    ORDER BY d.delivery LIMIT $12 /*postgres*/FOR UPDATE/*sqlite*/)
RETURNING delivery, key
