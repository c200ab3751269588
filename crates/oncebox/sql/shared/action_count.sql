-- How many deliveries an action would move: dead or held ones, which have an index of their own. $1 and $6 bound the
-- keys of the deliveries, $10 is their event where one is named.
SELECT count(*) FROM oncebox.deliveries d
WHERE d.delivery > $1 AND d.delivery <= $6 AND d.state IN ($8, $9) AND d.state IN ('dead', 'held')
  AND (CAST($7 AS text) IS NULL OR d.handler = $7)
  AND (CAST($10 AS /*postgres*/uuid/*sqlite blob*/) IS NULL OR d.key = $10)
  AND EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = d.key
          AND (CAST($2 AS text) IS NULL OR e.source = $2)
          AND (CAST($3 AS text) IS NULL OR e.type /*postgres*/LIKE $3 ESCAPE '!'/*sqlite GLOB $3*/)
          AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
          AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5))
