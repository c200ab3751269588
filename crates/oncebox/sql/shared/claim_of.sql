SELECT handler, attempt, attempts_before, (SELECT oncebox.now_ms($3)) - claimed_at_ms
FROM oncebox.deliveries WHERE delivery = $1 AND token = $2 AND state = 'claimed'
