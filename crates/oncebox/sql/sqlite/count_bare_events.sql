-- Held events without a delivery. A delivery's key begins as its event's does, so each is looked up in its own range: no
-- index has the deliveries by event.
SELECT count(*) FROM oncebox_events e
WHERE e.key > ?1 AND e.key <= ?6 AND e.state = ?7 AND e.state <> 'accepted'
  AND (CAST(?2 AS text) IS NULL OR e.source = ?2)
  AND (CAST(?3 AS text) IS NULL OR e.type GLOB ?3)
  AND (CAST(?4 AS bigint) IS NULL OR e.received_at_ms >= ?4)
  AND (CAST(?5 AS bigint) IS NULL OR e.received_at_ms < ?5)
  AND NOT EXISTS (SELECT 1 FROM oncebox_deliveries d WHERE d.key = e.key
      AND d.delivery >= CAST(substr(e.key, 1, 8) || x'0000000000000000' AS blob)
      AND d.delivery <= CAST(substr(e.key, 1, 8) || x'ffffffffffffffff' AS blob))
