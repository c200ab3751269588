-- Fenced: the token is the current one, or nothing happens. Past the lease it still counts, until somebody else claims.
-- The state is not compared as it stands, so that each row is found by its id: by the index of all that is claimed, every
-- mark would be compared with every claim.
-- What was answered is kept in the same trip: where a token is not the current one, all of it rolls back.
WITH kept AS (
    INSERT INTO oncebox.outbox_answers (id, at_ms, body)
    SELECT a.id, (SELECT oncebox.now_ms()), a.body FROM unnest($1::uuid[], $4::bytea[]) AS a (id, body) WHERE a.body <> ''
    ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body
)
UPDATE oncebox.outbox m
SET state = 'sent', sent_at_ms = (SELECT oncebox.now_ms()), status = s.status, last_error = NULL, lease_until_ms = NULL
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) AS s (id, token, status)
WHERE m.id = s.id AND m.token = s.token AND m.state || '' = 'claimed'
RETURNING m.id
