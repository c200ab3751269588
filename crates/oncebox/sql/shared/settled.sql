SELECT state FROM oncebox.deliveries WHERE delivery = $1 AND token = $2
