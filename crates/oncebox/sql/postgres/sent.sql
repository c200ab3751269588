-- Fenced: the token is the current one, or nothing happens. Past the lease it still counts, until somebody else claims.
-- The state is not compared as it stands, so that each row is found by its id: by the index of all that is claimed, every
-- mark would be compared with every claim.
UPDATE oncebox.outbox m
SET state = 'sent', sent_at_ms = (SELECT oncebox.now_ms()), status = s.status, last_error = NULL, lease_until_ms = NULL
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS s (id, token, status)
WHERE m.id = s.id AND m.token = s.token AND m.state || '' = 'claimed'
RETURNING m.id
