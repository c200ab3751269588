SELECT l.identity, l.key, e.body_sha256 FROM oncebox.ledger l LEFT JOIN oncebox.events e ON e.key = l.key
WHERE l.identity = ANY($1)
