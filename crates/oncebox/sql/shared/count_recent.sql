-- Events since $1, counted up to $2, and whether there is one before.
SELECT (SELECT count(*) FROM (SELECT 1 FROM oncebox.events WHERE key >= $1 LIMIT $2) counted),
       (SELECT count(*) FROM (SELECT 1 FROM oncebox.events WHERE key < $1 LIMIT 1) older)
