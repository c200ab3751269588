-- Fenced: the token is the current one, or nothing happens. Past the lease it still counts, until somebody else claims.
-- The state is not compared as it stands, so that each row is found by its key: by the index of all that is claimed, every
-- claim would be compared with every mark.
UPDATE oncebox.deliveries d SET state = 'done', finished_at_ms = (SELECT oncebox.now_ms())
FROM unnest($1::uuid[], $2::uuid[]) AS f (delivery, token)
WHERE d.delivery = f.delivery AND d.token = f.token AND d.state || '' = 'claimed'
RETURNING d.delivery
