-- One slice. Identities are digests, so any slice is a random one.
SELECT l.identity, CASE WHEN NOT EXISTS (SELECT 1 FROM oncebox.events e WHERE e.key = l.key)
    THEN 'identity without its event' END
FROM (SELECT identity, key FROM oncebox.ledger WHERE identity < $1 ORDER BY identity DESC LIMIT $2) l
ORDER BY l.identity DESC
