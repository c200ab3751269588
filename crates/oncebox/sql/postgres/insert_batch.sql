-- A batch in one statement that commits by itself: the rows follow from the identities that nobody had. Keys come sorted by
-- identity, so that two nodes never wait for each other in a circle.
-- Whoever was there before is told in the same answer. Where all are new nobody is looked for. One that another session
-- commits at this moment is neither new nor seen here: the caller looks it up afterwards.
-- The last column tells whether a standby must confirm the commit.
-- Where nobody is new nothing is written, and the commit would wait for no standby: see oncebox.confirm.
-- Deliveries are due now by the steady clock, which the node follows; where it has lost sight of it the database is asked.
WITH fresh AS (
    INSERT INTO oncebox.ledger (identity, key) SELECT * FROM unnest($1::uuid[], $2::uuid[])
    ON CONFLICT (identity) DO NOTHING RETURNING identity, key
), new_events AS (
    INSERT INTO oncebox.events (key, source, event_id, type, identity, body_sha256, state, reason, received_at_ms)
    SELECT n.* FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[], $9::text[],
                           $10::bigint[])
        AS n (key, source, event_id, type, identity, body_sha256, state, reason, received_at_ms)
    WHERE n.key IN (SELECT f.key FROM fresh f)
), new_payloads AS (
    INSERT INTO oncebox.payloads (key, remote, headers, body)
    SELECT n.* FROM unnest($2::uuid[], $11::text[], $12::bytea[], $13::bytea[]) AS n (key, remote, headers, body)
    WHERE n.key IN (SELECT f.key FROM fresh f)
), new_deliveries AS (
    INSERT INTO oncebox.deliveries (key, delivery, handler, state, order_key, due_at_ms)
    SELECT n.*, (SELECT coalesce($19, oncebox.steady_ms()))
    FROM unnest($14::uuid[], $15::uuid[], $16::text[], $17::text[], $18::uuid[]) AS n (key, delivery, handler, state, order_key)
    WHERE n.key IN (SELECT f.key FROM fresh f)
)
SELECT f.identity, f.key, NULL::bytea, true, (SELECT current_setting('synchronous_standby_names') <> '') FROM fresh f
UNION ALL
SELECT l.identity, l.key, e.body_sha256, false, (SELECT current_setting('synchronous_standby_names') <> '')
FROM oncebox.ledger l LEFT JOIN oncebox.events e ON e.key = l.key
WHERE l.identity = ANY($1) AND (SELECT count(*) FROM fresh) < cardinality($1::uuid[])
  AND (SELECT CASE WHEN EXISTS (SELECT FROM fresh) THEN true ELSE oncebox.confirm() END)
