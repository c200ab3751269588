SELECT l.key, e.body_sha256 FROM oncebox_ledger l LEFT JOIN oncebox_events e ON e.key = l.key WHERE l.identity = ?1
