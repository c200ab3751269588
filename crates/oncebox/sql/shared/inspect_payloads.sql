-- One slice, newest first: each row with what is wrong with it, if anything.
SELECT p.key, CASE WHEN NOT EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = p.key)
    THEN 'payload without its event' END
FROM (SELECT key FROM oncebox.payloads WHERE key < $1 ORDER BY key DESC LIMIT $2) p
ORDER BY p.key DESC
