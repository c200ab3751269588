-- Fenced: the token is the current one, or nothing happens. Past the lease it still counts, until somebody else claims.
UPDATE oncebox.deliveries SET state = 'done', finished_at_ms = (SELECT oncebox.now_ms($3))
WHERE delivery = $1 AND token = $2 AND state = 'claimed'
