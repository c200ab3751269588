SELECT count(*) FROM oncebox.events e
WHERE e.key > $1 AND (CAST($7 AS text) IS NULL OR e.state = $7)
  AND (CAST($8 AS bigint) = 0 OR NOT EXISTS (SELECT 1 FROM oncebox.deliveries d WHERE d.key = e.key))
          AND (CAST($2 AS text) IS NULL OR e.source = $2)
          AND (CAST($3 AS text) IS NULL OR e.type LIKE $3 ESCAPE '!')
          AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
          AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5)
          AND (CAST($6 AS uuid) IS NULL OR e.key = $6)
