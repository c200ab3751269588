SELECT 1 FROM oncebox.deliveries o
WHERE o.handler = $1 AND o.order_key IS NOT NULL AND o.state IN ('ready', 'claimed', 'dead', 'held') LIMIT 1
