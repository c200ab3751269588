-- As claim.sql: chosen and locked first, then updated by their places. Found by state, never by a cursor: a transaction
-- that took a low id and committed late is found like any other.
-- Where order matters, only the oldest of a key goes out, and none while another is under way.
-- What is locked beyond the bytes stays as it is.
WITH locked AS MATERIALIZED (
    SELECT one.place, one.id, one.due_at_ms, one.size, w.destination, w.bytes, t.attempts, w.lease_ms
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $5::bigint[]) AS w (destination, most, lease_ms, bytes)
    JOIN oncebox.destinations t ON t.destination = w.destination
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place, m.id, m.due_at_ms, m.size FROM oncebox.outbox m
        WHERE m.destination = w.destination AND m.state = 'ready' AND m.due_at_ms <= (SELECT oncebox.sure_ms($6))
          AND (t.ordered = 0 OR m.order_key IS NULL OR NOT EXISTS (
              SELECT 1 FROM oncebox.outbox o
              WHERE o.destination = m.destination AND o.order_key = m.order_key AND o.order_key IS NOT NULL
                AND o.state IN ('ready', 'claimed') AND o.id <> m.id AND (o.state = 'claimed' OR o.id < m.id)))
        ORDER BY m.due_at_ms, m.id LIMIT w.most FOR UPDATE SKIP LOCKED
    ) one
), summed AS (
    SELECT place, size, bytes, attempts, lease_ms,
           sum(size) OVER (PARTITION BY destination ORDER BY due_at_ms, id) AS bytes_so_far
    FROM locked
), chosen AS MATERIALIZED (
    SELECT s.place, s.attempts, s.lease_ms FROM summed s WHERE s.bytes_so_far - s.size < s.bytes
), claimed AS (
    UPDATE oncebox.outbox m
    SET state = CASE WHEN m.attempt - m.attempts_before >= c.attempts THEN 'dead' ELSE 'claimed' END,
        attempt = CASE WHEN m.attempt - m.attempts_before >= c.attempts THEN m.attempt ELSE m.attempt + 1 END,
        last_error = CASE WHEN m.attempt - m.attempts_before >= c.attempts AND m.last_error IS NULL
                          THEN 'the attempts are used up' ELSE m.last_error END,
        token = (SELECT gen_random_uuid()), node = $4, claimed_at_ms = (SELECT oncebox.now_ms()),
        lease_until_ms = (SELECT oncebox.steady_ms($6)) + c.lease_ms
    FROM chosen c
    WHERE m.ctid = c.place
    RETURNING m.id, m.token, m.destination, m.state, m.attempt, m.attempts_before, m.due_at_ms, m.handler, m.order_key
)
SELECT m.id, m.token, m.destination, m.state, m.attempt, m.attempts_before, m.due_at_ms, c.idempotency_key, c.method,
       c.path, c.headers, c.body, c.key, m.handler, c.step, m.order_key, e.source, e.event_id,
       -- Where the trace of the event stands, if it has one.
       (SELECT substr(p.headers, 1, 68) FROM oncebox.payloads p WHERE p.key = c.key)
FROM claimed m JOIN oncebox.outbox_contents c ON c.id = m.id LEFT JOIN oncebox.events e ON e.key = c.key
