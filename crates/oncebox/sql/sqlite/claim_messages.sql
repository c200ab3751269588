-- Found by state, never by a cursor. Where order matters, only the oldest of a key goes out, and none while another is
-- under way. A claim beyond the attempts makes a dead letter: a crash uses one attempt, too.
UPDATE oncebox_outbox
SET state = CASE WHEN attempt - attempts_before >= t.attempts THEN 'dead' ELSE 'claimed' END,
    attempt = CASE WHEN attempt - attempts_before >= t.attempts THEN attempt ELSE attempt + 1 END,
    last_error = CASE WHEN attempt - attempts_before >= t.attempts AND last_error IS NULL
                      THEN 'the attempts are used up' ELSE last_error END,
    token = randomblob(16), node = ?4, claimed_at_ms = ?5, lease_until_ms = ?5 + ?3
FROM oncebox_destinations t
WHERE t.destination = ?1 AND id IN (
    SELECT m.id FROM oncebox_outbox m
    WHERE m.destination = ?1 AND m.state = 'ready' AND m.due_at_ms <= ?5
      AND ((SELECT ordered FROM oncebox_destinations WHERE destination = ?1) = 0 OR m.order_key IS NULL OR NOT EXISTS (
          SELECT 1 FROM oncebox_outbox o
          WHERE o.destination = m.destination AND o.order_key = m.order_key AND o.order_key IS NOT NULL
            AND o.state IN ('ready', 'claimed') AND o.id <> m.id AND (o.state = 'claimed' OR o.id < m.id)))
    ORDER BY m.due_at_ms, m.id LIMIT ?2)
RETURNING id, token, destination, state, attempt, attempts_before, due_at_ms, idempotency_key, method, path, headers,
          body, key, handler, step, order_key,
          -- Where the trace of the event stands, if it has one.
          (SELECT substr(p.headers, 1, 68) FROM oncebox_payloads p WHERE p.key = oncebox_outbox.key)
