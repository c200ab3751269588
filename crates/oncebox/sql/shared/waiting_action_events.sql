-- As action_events for held or conflicting ones, through the index that has only those.
SELECT e.key, e.source, e.event_id, e.type, e.identity, e.body_sha256, e.state, e.reason FROM oncebox.events e
WHERE e.key > $1 AND e.key <= $6 AND e.state = $7 AND e.state <> 'accepted'
  AND (CAST($2 AS text) IS NULL OR e.source = $2)
  AND (CAST($3 AS text) IS NULL OR e.type /*postgres*/LIKE $3 ESCAPE '!'/*sqlite GLOB $3*/)
  AND (CAST($4 AS bigint) IS NULL OR e.received_at_ms >= $4)
  AND (CAST($5 AS bigint) IS NULL OR e.received_at_ms < $5)
ORDER BY e.key LIMIT $8
