-- Fenced: the token is the current one, or nothing happens. Past the lease it still counts, until somebody else claims.
UPDATE oncebox.deliveries d SET state = 'done', finished_at_ms = (SELECT oncebox.now_ms())
FROM unnest($1::uuid[], $2::uuid[]) AS f (delivery, token)
WHERE d.delivery = f.delivery AND d.token = f.token AND d.state = 'claimed' AND d.delivery = ANY($1)
RETURNING d.delivery
