UPDATE oncebox.deliveries SET lease_until_ms = (SELECT oncebox.steady_ms($5, $3)) + $4
WHERE delivery = $1 AND token = $2 AND state = 'claimed' RETURNING lease_until_ms
