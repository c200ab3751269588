SELECT e.source, e.event_id, e.type, e.received_at_ms, p.headers, p.body
FROM oncebox_events e LEFT JOIN oncebox_payloads p ON p.key = e.key WHERE e.key = ?1
