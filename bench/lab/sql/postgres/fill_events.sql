COPY oncebox.events (key, source, event_id, type, identity, body_sha256, state, received_at_ms) FROM STDIN (FORMAT binary)
