-- The rows of events that are new, as the referees decided before; COMMIT travels with them. The values are those of
-- insert_batch.sql but for the first.
WITH new_events AS (
    INSERT INTO oncebox.events (original, key, source, event_id, type, identity, body_sha256, state, reason, received_at_ms)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[],
                         $9::text[], $10::bigint[])
), new_payloads AS (
    INSERT INTO oncebox.payloads (key, remote, headers, body)
    SELECT * FROM unnest($2::uuid[], $11::text[], $12::bytea[], $13::bytea[])
)
INSERT INTO oncebox.deliveries (key, delivery, handler, state, order_key, due_at_ms)
SELECT n.*, (SELECT coalesce($19, oncebox.steady_ms()))
FROM unnest($14::uuid[], $15::uuid[], $16::text[], $17::text[], $18::uuid[]) AS n (key, delivery, handler, state, order_key)
