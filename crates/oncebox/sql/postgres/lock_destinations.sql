-- One claim at a time for a destination that wants order, until the claim's transaction ends: each sees what the one before it
-- has under way. A statement of its own, so that the claim after it looks anew.
SELECT pg_advisory_xact_lock(hashtextextended('oncebox outbox ' || one.destination, 0))
FROM (SELECT t.destination FROM oncebox.destinations t WHERE t.ordered = 1 AND t.destination = ANY($1)
      ORDER BY t.destination) one
