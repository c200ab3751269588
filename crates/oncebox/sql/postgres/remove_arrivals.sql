-- With those that were counted for an event that was gone already.
DELETE FROM oncebox.arrivals a WHERE a.key >= $1 AND a.key <= $2
  AND (a.key = ANY($3) OR NOT EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = a.key))
