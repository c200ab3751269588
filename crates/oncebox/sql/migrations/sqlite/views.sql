-- What holds no data: the views, and the trigger behind the one that sends. This file is run again whenever its text is
-- another than the one that was run last, so it is edited in place, and takes away what it makes before it makes it. Give the
-- text its next number in database/migrations.rs once the number before was released: the higher one wins, so a program of an
-- older version leaves a newer text alone.

-- == What people and their tools read. Stable: columns are added at the end and none is taken away ==

DROP VIEW IF EXISTS oncebox_events_v1;
CREATE VIEW oncebox_events_v1 AS
SELECT e.source, e.event_id,
       lower(substr(hex(e.key), 1, 8) || '-' || substr(hex(e.key), 9, 4) || '-' || substr(hex(e.key), 13, 4) || '-' ||
             substr(hex(e.key), 17, 4) || '-' || substr(hex(e.key), 21)) AS key,
       e.type, lower(hex(e.body_sha256)) AS body_sha256, e.state,
       1 + coalesce(a.count, 0) AS arrivals,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.received_at_ms / 1000.0, 'unixepoch') AS received_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(a.last_at_ms, e.received_at_ms) / 1000.0, 'unixepoch') AS last_arrival_at
FROM oncebox_events e LEFT JOIN oncebox_arrivals a ON a.key = e.key;

DROP VIEW IF EXISTS oncebox_deliveries_v1;
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

DROP VIEW IF EXISTS oncebox_outbox_v1;
CREATE VIEW oncebox_outbox_v1 AS
SELECT lower(substr(hex(o.id), 1, 8) || '-' || substr(hex(o.id), 9, 4) || '-' || substr(hex(o.id), 13, 4) || '-' ||
             substr(hex(o.id), 17, 4) || '-' || substr(hex(o.id), 21)) AS id,
       o.destination, c.idempotency_key, o.state, o.attempt,
       strftime('%Y-%m-%dT%H:%M:%fZ', o.created_at_ms / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', o.sent_at_ms / 1000.0, 'unixepoch') AS sent_at, o.last_error
FROM oncebox_outbox o JOIN oncebox_outbox_contents c ON c.id = o.id;

-- == send ==

-- How SQL sends: insert into oncebox_send (destination, body, delivery, step) values ('crm', …, :delivery, 'notify').
-- Optional: step ('send'), path, method, headers, key (without a delivery), order_key. A message that is there already
-- stays as it is.
DROP VIEW IF EXISTS oncebox_send;
CREATE VIEW oncebox_send AS
SELECT o.destination, c.body, c.step, NULL AS delivery, c.path, c.method, c.headers, NULL AS key, o.order_key
FROM oncebox_outbox o JOIN oncebox_outbox_contents c ON c.id = o.id WHERE false;

-- What is wrong is said in words before the table says it in its own. Due when its delivery was, which is a steady time that
-- is over; what belongs to no delivery is due at once.
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
    -- A delivery that was never claimed has no token.
    SELECT RAISE(ABORT, 'oncebox: this step was sent already in this claim; name each step of a delivery differently')
    FROM oncebox_deliveries d JOIN oncebox_outbox_contents c
        ON c.delivery = d.delivery AND c.step = coalesce(NEW.step, 'send')
       AND coalesce(c.delivery_token = d.token, c.delivery_attempt = d.attempt)
    WHERE d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
      AND c.idempotency_key = lower(substr(hex(d.delivery), 1, 8) || '-' || substr(hex(d.delivery), 9, 4) || '-' ||
              substr(hex(d.delivery), 13, 4) || '-' || substr(hex(d.delivery), 17, 4) || '-' ||
              substr(hex(d.delivery), 21)) || '/' || NEW.destination || '/' || coalesce(NEW.step, 'send');
    INSERT INTO oncebox_outbox_contents (id, idempotency_key, path, method, headers, body, key, delivery, step,
                                         delivery_attempt, delivery_token)
    SELECT unhex(printf('%012x', now.ms) || '7' || printf('%03x', (now.row >> 32) & 4095) || '80' ||
                 printf('%08x', now.row & 4294967295) || hex(randomblob(3))),
           coalesce(lower(substr(hex(d.delivery), 1, 8) || '-' || substr(hex(d.delivery), 9, 4) || '-' ||
                          substr(hex(d.delivery), 13, 4) || '-' || substr(hex(d.delivery), 17, 4) || '-' ||
                          substr(hex(d.delivery), 21)) || '/' || NEW.destination || '/' ||
                    iif(d.delivery IS NULL, NULL, coalesce(NEW.step, 'send')),
                    NEW.destination || '/' || NEW.key,
                    lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) ||
                          '-8' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
           coalesce(NEW.path, ''), coalesce(upper(NEW.method), 'POST'), coalesce(NEW.headers, '{}'),
           CAST(NEW.body AS BLOB), d.key, d.delivery, iif(d.delivery IS NULL, NULL, coalesce(NEW.step, 'send')),
           d.attempt, d.token
    FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS ms,
                 (SELECT coalesce(max(rowid), 0) + 1 FROM oncebox_outbox_contents) AS row) now
    LEFT JOIN oncebox_deliveries d
        ON d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
    WHERE true
    ON CONFLICT (idempotency_key) DO NOTHING;
    -- Only where the row before was new.
    INSERT INTO oncebox_outbox (id, destination, handler, order_key, size, due_at_ms, created_at_ms)
    SELECT c.id, NEW.destination, d.handler,
           coalesce(NEW.order_key, nullif(lower(hex(coalesce(d.order_key, d.key))), '')), length(c.body),
           coalesce(d.due_at_ms, 0), CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    FROM oncebox_outbox_contents c LEFT JOIN oncebox_deliveries d ON d.delivery = c.delivery
    WHERE changes() = 1 AND c.rowid = last_insert_rowid();
END;
