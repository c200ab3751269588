SELECT e.source, e.event_id, e.type, e.received_at_ms, x'', x'' FROM oncebox_events e WHERE e.key = ?1
