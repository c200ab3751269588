-- What insert_batch.sql does, for a batch of one: values in place of arrays, half the work. A lone request waits for this alone.
WITH fresh AS (
    INSERT INTO oncebox.ledger (identity, key) VALUES ($1, $2) ON CONFLICT (identity) DO NOTHING RETURNING identity, key
), new_event AS (
    INSERT INTO oncebox.events (key, source, event_id, type, identity, body_sha256, state, reason, received_at_ms)
    SELECT f.key, $3, $4, $5, $6, $7, $8, $9, $10 FROM fresh f
), new_payload AS (
    INSERT INTO oncebox.payloads (key, remote, headers, body) SELECT f.key, $11, $12, $13 FROM fresh f
), new_deliveries AS (
    INSERT INTO oncebox.deliveries (key, delivery, handler, state, order_key, due_at_ms)
    SELECT n.*, (SELECT coalesce($19, oncebox.steady_ms()))
    FROM fresh f, unnest($14::uuid[], $15::uuid[], $16::text[], $17::text[], $18::uuid[])
        AS n (key, delivery, handler, state, order_key)
)
SELECT f.identity, f.key, NULL::bytea, true, current_setting('synchronous_standby_names') <> '' FROM fresh f
UNION ALL
SELECT l.identity, l.key, e.body_sha256, false, current_setting('synchronous_standby_names') <> ''
FROM oncebox.ledger l LEFT JOIN oncebox.events e ON e.key = l.key
WHERE l.identity = $1 AND NOT EXISTS (SELECT FROM fresh)
  AND (SELECT CASE WHEN EXISTS (SELECT FROM fresh) THEN true ELSE oncebox.confirm() END)
