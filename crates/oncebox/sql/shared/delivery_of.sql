SELECT key, handler, attempt, order_key FROM oncebox.deliveries WHERE delivery = $1
