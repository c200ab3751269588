-- By the handler's own lease, unless it is longer already.
UPDATE oncebox.deliveries SET lease_until_ms = CASE
    WHEN lease_until_ms > (SELECT oncebox.steady_ms($4, $3)) + (SELECT h.lease_ms FROM oncebox.handlers h WHERE h.handler = oncebox.deliveries.handler)
    THEN lease_until_ms
    ELSE (SELECT oncebox.steady_ms($4, $3)) + (SELECT h.lease_ms FROM oncebox.handlers h WHERE h.handler = oncebox.deliveries.handler) END
WHERE delivery = $1 AND token = $2 AND state = 'claimed' RETURNING lease_until_ms
