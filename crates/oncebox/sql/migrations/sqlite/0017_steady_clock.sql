-- Leases and due times stand on a clock of their own, which goes on evenly whatever the wall clock does: the wall clock
-- and an offset, which the process changes by as much as the wall clock jumped. Times that people read, and by which
-- retention counts, stay on the wall clock.

-- offset_ms: what to add to the wall clock. seen_ms: the latest steady time that a process wrote down; no start goes back
-- behind it. settled: how many jumps were settled, so that two processes settle one jump once.
CREATE TABLE oncebox_steady_clock (
    one       INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    offset_ms INTEGER NOT NULL,
    seen_ms   INTEGER NOT NULL,
    settled   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO oncebox_steady_clock (one, offset_ms, seen_ms, settled) VALUES (1, 0, 0, 0);

-- The steady time at which a process began, and was last seen.
ALTER TABLE oncebox_nodes ADD COLUMN began_ms INTEGER;
ALTER TABLE oncebox_nodes ADD COLUMN steady_ms INTEGER;

DROP VIEW oncebox_deliveries_v1;
CREATE VIEW oncebox_deliveries_v1 AS
SELECT lower(substr(hex(d.key), 1, 8) || '-' || substr(hex(d.key), 9, 4) || '-' || substr(hex(d.key), 13, 4) || '-' ||
             substr(hex(d.key), 17, 4) || '-' || substr(hex(d.key), 21)) AS key,
       e.source, e.event_id, d.handler, d.state, d.attempt,
       CASE WHEN d.state = 'ready'
            THEN strftime('%Y-%m-%dT%H:%M:%fZ', (d.due_at_ms - (SELECT c.offset_ms FROM oncebox_steady_clock c)) / 1000.0,
                          'unixepoch')
       END AS next_attempt_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.finished_at_ms / 1000.0, 'unixepoch') AS finished_at, d.last_error
FROM oncebox_deliveries d JOIN oncebox_events e ON e.key = d.key;

-- Due when its delivery was, which is a steady time that is over; what belongs to no delivery is due at once.
DROP TRIGGER oncebox_send_write;
CREATE TRIGGER oncebox_send_write INSTEAD OF INSERT ON oncebox_send BEGIN
    SELECT RAISE(ABORT, 'oncebox: no such delivery') WHERE NEW.delivery IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries d
        WHERE d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery));
    SELECT RAISE(ABORT, 'oncebox: a message of a delivery has its key from its step, so give step and not key')
    WHERE NEW.delivery IS NOT NULL AND NEW.key IS NOT NULL;
    SELECT RAISE(ABORT, 'oncebox: a step belongs to a delivery, so give that too')
    WHERE NEW.delivery IS NULL AND NEW.step IS NOT NULL;
    SELECT RAISE(ABORT, 'oncebox: a key is 1 to 200 visible ASCII characters without a slash')
    WHERE NEW.key IS NOT NULL AND (length(NEW.key) NOT BETWEEN 1 AND 200 OR NEW.key GLOB '*[^!-.0-~]*');
    SELECT RAISE(ABORT, 'oncebox: a method is one of POST, PUT, PATCH, DELETE and GET')
    WHERE upper(NEW.method) NOT IN ('POST', 'PUT', 'PATCH', 'DELETE', 'GET');
    SELECT RAISE(ABORT, 'oncebox: the body of a message has at most 16 MiB')
    WHERE length(CAST(NEW.body AS BLOB)) > 16777216;
    -- What an older version wrote does not know its claim.
    SELECT RAISE(ABORT, 'oncebox: this step was sent already in this claim; name each step of a delivery differently')
    FROM oncebox_deliveries d JOIN oncebox_outbox o
        ON o.delivery = d.delivery AND o.destination = NEW.destination AND o.step = coalesce(NEW.step, 'send')
       AND coalesce(o.delivery_token = d.token, o.delivery_attempt = d.attempt)
    WHERE d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
      AND o.idempotency_key = lower(substr(hex(d.delivery), 1, 8) || '-' || substr(hex(d.delivery), 9, 4) || '-' ||
              substr(hex(d.delivery), 13, 4) || '-' || substr(hex(d.delivery), 17, 4) || '-' ||
              substr(hex(d.delivery), 21)) || '/' || NEW.destination || '/' || coalesce(NEW.step, 'send');
    INSERT INTO oncebox_outbox (id, destination, idempotency_key, path, method, headers, body, order_key, key, delivery,
                                handler, step, delivery_attempt, delivery_token, due_at_ms, created_at_ms)
    SELECT unhex(printf('%012x', now.ms) || '7' || printf('%03x', (now.row >> 32) & 4095) || '80' ||
                 printf('%08x', now.row & 4294967295) || hex(randomblob(3))),
           NEW.destination,
           coalesce(lower(substr(hex(d.delivery), 1, 8) || '-' || substr(hex(d.delivery), 9, 4) || '-' ||
                          substr(hex(d.delivery), 13, 4) || '-' || substr(hex(d.delivery), 17, 4) || '-' ||
                          substr(hex(d.delivery), 21)) || '/' || NEW.destination || '/' ||
                    iif(d.delivery IS NULL, NULL, coalesce(NEW.step, 'send')),
                    NEW.destination || '/' || NEW.key,
                    lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) ||
                          '-8' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
           coalesce(NEW.path, ''), coalesce(upper(NEW.method), 'POST'), coalesce(NEW.headers, '{}'),
           CAST(NEW.body AS BLOB),
           coalesce(NEW.order_key, nullif(lower(hex(coalesce(d.order_key, d.key))), '')), d.key, d.delivery,
           d.handler, iif(d.delivery IS NULL, NULL, coalesce(NEW.step, 'send')), d.attempt,
           d.token, coalesce(d.due_at_ms, 0), now.ms
    FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS ms,
                 (SELECT coalesce(max(rowid), 0) + 1 FROM oncebox_outbox) AS row) now
    LEFT JOIN oncebox_deliveries d
        ON d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
    WHERE true
    ON CONFLICT (idempotency_key) DO NOTHING;
END;
