UPDATE oncebox.deliveries SET lease_until_ms = (SELECT oncebox.now_ms($3)) + $4
WHERE delivery = $1 AND token = $2 AND state = 'claimed' RETURNING lease_until_ms
