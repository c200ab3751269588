-- For handlers that read neither headers nor body: half of what a claim costs is to find, sort and send them.
SELECT c.delivery, c.token, c.key, c.handler, c.state, c.attempt, c.attempts_before, c.due_at_ms, c.lease_until_ms,
       c.order_key, c.wait_until_ms, e.source, e.event_id, e.type, e.received_at_ms, ''::bytea, ''::bytea, 1::bigint
FROM claimed c JOIN oncebox.events e ON e.key = c.key ORDER BY c.due_at_ms, c.key
