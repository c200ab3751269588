-- What may be claimed, as it is once it is; claim_message.sql then makes it so, row by row, as far as the bytes go. The
-- writer is alone, so nothing changes in between.
-- Found by state, never by a cursor. Where order matters, only the oldest of a key goes out, and none while another is
-- under way. A claim beyond the attempts makes a dead letter: a crash uses one attempt, too.
SELECT m.id, ?4, m.destination, iif(m.attempt - m.attempts_before >= t.attempts, 'dead', 'claimed'),
       iif(m.attempt - m.attempts_before >= t.attempts, m.attempt, m.attempt + 1), m.attempts_before, m.due_at_ms,
       c.idempotency_key, c.method, c.path, c.headers, c.body, c.key, m.handler, c.step, m.order_key, e.source, e.event_id,
       -- Where the trace of the event stands, if it has one.
       (SELECT substr(p.headers, 1, 68) FROM oncebox_payloads p WHERE p.key = c.key)
FROM oncebox_destinations t
CROSS JOIN oncebox_outbox m
CROSS JOIN oncebox_outbox_contents c
LEFT JOIN oncebox_events e ON e.key = c.key
WHERE t.destination = ?1 AND c.id = m.id AND m.destination = ?1 AND m.state = 'ready' AND m.due_at_ms <= ?3
  AND (t.ordered = 0 OR m.order_key IS NULL OR NOT EXISTS (
      SELECT 1 FROM oncebox_outbox o
      WHERE o.destination = m.destination AND o.order_key = m.order_key AND o.order_key IS NOT NULL
        AND o.state IN ('ready', 'claimed') AND o.id <> m.id AND (o.state = 'claimed' OR o.id < m.id)))
ORDER BY m.due_at_ms, m.id LIMIT ?2
