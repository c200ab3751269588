-- How many events could be forgotten: a conflict has no identity of its own. $1 and $6 bound the keys: an event that is
-- named is read alone.
SELECT count(*) FROM oncebox.events e
WHERE e.key > $1 AND e.key <= $6 AND e.state <> 'conflict' AND (CAST($7 AS text) IS NULL OR e.state = $7)
  AND (CAST($2 AS text) IS NULL OR e.source = $2)
  AND (CAST($3 AS text) IS NULL OR e.type /*postgres*/LIKE $3 ESCAPE '!'/*sqlite GLOB $3*/)
  AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
  AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5)
