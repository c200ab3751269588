-- As claim.sql: chosen and locked first, then updated by their ids. Found by state, never by a cursor: a transaction
-- that took a low id and committed late is found like any other.
-- Where order matters, only the oldest of a key goes out, and none while another is under way.
WITH chosen AS MATERIALIZED (
    SELECT one.id, t.attempts, w.lease_ms
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS w (destination, most, lease_ms)
    JOIN oncebox.destinations t ON t.destination = w.destination
    CROSS JOIN LATERAL (
        SELECT m.id FROM oncebox.outbox m
        WHERE m.destination = w.destination AND m.state = 'ready' AND m.due_at_ms <= (SELECT oncebox.now_ms())
          AND (t.ordered = 0 OR m.order_key IS NULL OR NOT EXISTS (
              SELECT 1 FROM oncebox.outbox o
              WHERE o.destination = m.destination AND o.order_key = m.order_key AND o.order_key IS NOT NULL
                AND o.state IN ('ready', 'claimed') AND o.id <> m.id AND (o.state = 'claimed' OR o.id < m.id)))
        ORDER BY m.due_at_ms, m.id LIMIT w.most FOR UPDATE SKIP LOCKED
    ) one
)
UPDATE oncebox.outbox m
SET state = CASE WHEN m.attempt - m.attempts_before >= c.attempts THEN 'dead' ELSE 'claimed' END,
    attempt = CASE WHEN m.attempt - m.attempts_before >= c.attempts THEN m.attempt ELSE m.attempt + 1 END,
    last_error = CASE WHEN m.attempt - m.attempts_before >= c.attempts AND m.last_error IS NULL
                      THEN 'the attempts are used up' ELSE m.last_error END,
    token = gen_random_uuid(), node = $4, claimed_at_ms = now_ms.at, lease_until_ms = now_ms.at + c.lease_ms
FROM chosen c, (SELECT oncebox.now_ms() AS at) now_ms
WHERE m.id = c.id AND m.id = ANY(ARRAY(SELECT id FROM chosen))
RETURNING m.id, m.token, m.destination, m.state, m.attempt, m.attempts_before, m.due_at_ms, m.idempotency_key, m.method,
          m.path, m.headers, m.body, m.key, m.handler, m.step, m.order_key,
          -- Where the trace of the event stands, if it has one.
          (SELECT substr(p.headers, 1, 68) FROM oncebox.payloads p WHERE p.key = m.key)
