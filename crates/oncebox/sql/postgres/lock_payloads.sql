-- Whoever is just making one of them run again keeps it.
SELECT key FROM oncebox.payloads WHERE key = ANY($1) ORDER BY key FOR UPDATE SKIP LOCKED
