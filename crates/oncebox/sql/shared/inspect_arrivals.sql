-- One slice, newest first: each row with what is wrong with it, if anything.
SELECT a.key, CASE WHEN NOT EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = a.key)
    THEN 'arrivals without their event' END
FROM (SELECT key FROM oncebox.arrivals WHERE key < $1 ORDER BY key DESC LIMIT $2) a
ORDER BY a.key DESC
