-- An id of several parts is shown with colons between them, and its identity cannot be made anew from that.
SELECT e.key, e.source, e.event_id, e.type, e.identity, e.body_sha256, e.state, e.reason, e.original, e.received_at_ms,
       1 + coalesce(a.count, 0), coalesce(a.last_at_ms, e.received_at_ms)
FROM oncebox.events e LEFT JOIN oncebox.arrivals a ON a.key = e.key
WHERE e.event_id = $1 AND e.source = $2
  AND (e.identity <> 'id' OR e.state = 'conflict' OR replace(e.event_id, ':', '') <> e.event_id)
ORDER BY e.key LIMIT 100
