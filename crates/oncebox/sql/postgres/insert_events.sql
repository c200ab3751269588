INSERT INTO oncebox.events
    (key, source, event_id, type, identity, body_sha256, state, reason, original, received_at_ms)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::text[],
                     $9::uuid[], $10::bigint[])
