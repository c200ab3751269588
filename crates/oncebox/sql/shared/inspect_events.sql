-- One slice, newest first. The columns up to the digest are what an identity is made of; the ledger is asked apart.
SELECT key, source, event_id, type, identity, body_sha256, state,
       CASE WHEN state = 'conflict' AND original IS NULL THEN 1 ELSE 0 END
FROM oncebox.events WHERE key < $1 ORDER BY key DESC LIMIT $2
