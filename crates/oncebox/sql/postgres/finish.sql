-- Fenced: the token is the current one, or nothing happens. Past the lease it still counts, until somebody else claims.
-- Neither a join nor the state as it stands: by the index of all that is claimed, every claim would be compared with every
-- mark.
UPDATE oncebox.deliveries d SET state = 'done', finished_at_ms = (SELECT oncebox.now_ms())
WHERE d.delivery = ANY($1) AND d.token = ($2::uuid[])[array_position($1::uuid[], d.delivery)] AND d.state || '' = 'claimed'
RETURNING d.delivery
