SELECT key, handler, attempt, order_key, token FROM oncebox.deliveries WHERE delivery = $1
