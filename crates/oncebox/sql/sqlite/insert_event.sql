INSERT INTO oncebox_events
    (key, source, event_id, type, identity, body_sha256, state, reason, original, received_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
