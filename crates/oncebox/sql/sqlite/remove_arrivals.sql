-- With those that were counted for an event that was gone already.
DELETE FROM oncebox_arrivals WHERE key >= ?1 AND key <= ?2
  AND NOT EXISTS (SELECT 1 FROM oncebox_events e WHERE e.key = oncebox_arrivals.key)
