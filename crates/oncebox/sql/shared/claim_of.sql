SELECT handler, attempt, attempts_before FROM oncebox.deliveries WHERE delivery = $1 AND token = $2 AND state = 'claimed'
