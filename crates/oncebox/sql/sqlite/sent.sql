-- Fenced: the token is the current one, or nothing happens. Past the lease it still counts, until somebody else claims.
UPDATE oncebox_outbox SET state = 'sent', sent_at_ms = ?4, status = ?3, last_error = NULL, lease_until_ms = NULL
WHERE id = ?1 AND token = ?2 AND state = 'claimed'
