-- No bytes beyond those that are wanted are read, apart from the first body; what does not fit is told by the last column,
-- and the caller puts it back by unclaim.sql in the same transaction. So small bodies cost no second look.
, sized AS (
    SELECT c.*, e.source, e.event_id, e.type, e.received_at_ms, p.headers, p.body,
           CASE WHEN c.state = 'claimed' THEN coalesce(octet_length(p.body), 0) ELSE 0 END AS size
    FROM claimed c JOIN oncebox.events e ON e.key = c.key LEFT JOIN oncebox.payloads p ON p.key = c.key
), summed AS (
    SELECT s.*, sum(s.size) OVER (PARTITION BY s.handler ORDER BY s.due_at_ms, s.key) - s.size < s.bytes AS fits
    FROM sized s
)
SELECT s.delivery, s.token, s.key, s.handler, s.state, s.attempt, s.attempts_before, s.due_at_ms, s.lease_until_ms,
       s.order_key, s.wait_until_ms, s.source, s.event_id, s.type, s.received_at_ms, s.headers,
       CASE WHEN s.fits THEN s.body END, CAST(s.fits AS integer)::bigint
FROM summed s ORDER BY s.due_at_ms, s.key
