INSERT INTO oncebox.deliveries (delivery, key, handler, state, order_key, due_at_ms)
VALUES ($1, $2, $3, 'ready', $4, (SELECT oncebox.steady_ms($6, $5))) ON CONFLICT (delivery) DO NOTHING
