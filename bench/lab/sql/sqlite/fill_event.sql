INSERT INTO oncebox_events (key, source, event_id, type, identity, body_sha256, state, received_at_ms)
VALUES (?1, ?2, ?3, ?4, 'id', ?5, 'accepted', ?6)
