-- Due by the database's clock, made steady: the nodes' clocks may differ by hours. Read once, not for every row.
INSERT INTO oncebox.deliveries (delivery, key, handler, state, order_key, due_at_ms)
SELECT d.delivery, d.key, d.handler, d.state, d.order_key,
       (SELECT oncebox.steady_ms($6))
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[]) AS d (delivery, key, handler, state, order_key)
