-- How many messages an action would move, of the dead or of those that wait.
SELECT count(*) FROM oncebox.outbox m
WHERE m.id > $1 AND m.id <= $6 AND {which}
  AND (CAST($3 AS text) IS NULL OR m.handler = $3)
  AND (CAST($4 AS bigint) IS NULL OR m.created_at_ms >= $4)
  AND (CAST($5 AS bigint) IS NULL OR m.created_at_ms < $5)
