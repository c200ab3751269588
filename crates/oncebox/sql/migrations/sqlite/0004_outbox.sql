-- What handlers want sent, written in their own transaction. Until now nothing wrote the table, so it is made anew.

DROP VIEW oncebox_outbox_v1;
DROP TABLE oncebox_outbox;

-- idempotency_key: `{delivery}/{destination}/{step}` where a delivery wrote it (a delivery's key is made from event and
-- handler), `{destination}/{given key}` where the writer gave one, else a fresh UUID. No part holds a slash.
-- path: what is added below the destination's URL. headers: a JSON object of texts.
-- order_key: messages of one key go out one after the other where the destination wants that; where none is given it
-- is the delivery's own order key, else its event's key, in hex.
-- delivery_attempt: the delivery's attempt that wrote it; the same step twice in one attempt is a mistake.
-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- status: of the latest answer. token stays after the end: an unknown commit is settled by looking whose it is.
-- Not WITHOUT ROWID, for the bytes; the row number also keeps messages of one millisecond in the order of writing.
CREATE TABLE oncebox_outbox (
    id               BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    destination      TEXT NOT NULL
                     CHECK (length(destination) BETWEEN 1 AND 64 AND destination NOT GLOB '*[^A-Za-z0-9._-]*'),
    idempotency_key  TEXT NOT NULL UNIQUE,
    path             TEXT NOT NULL DEFAULT '' CHECK (length(path) <= 2048),
    method           TEXT NOT NULL DEFAULT 'POST' CHECK (method IN ('POST', 'PUT', 'PATCH', 'DELETE', 'GET')),
    headers          TEXT NOT NULL DEFAULT '{}'
                     CHECK (length(headers) <= 16384 AND json_valid(headers) AND json_type(headers) = 'object'),
    body             BLOB NOT NULL CHECK (length(body) <= 16777216),
    order_key        TEXT CHECK (length(order_key) BETWEEN 1 AND 200),
    key              BLOB,
    delivery         BLOB,
    handler          TEXT,
    step             TEXT CHECK (length(step) BETWEEN 1 AND 64 AND step NOT GLOB '*[^A-Za-z0-9._-]*'),
    delivery_attempt INTEGER,
    state            TEXT NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'claimed', 'sent', 'dead', 'discarded')),
    attempt          INTEGER NOT NULL DEFAULT 0,
    attempts_before  INTEGER NOT NULL DEFAULT 0,
    due_at_ms        INTEGER NOT NULL,
    token            BLOB,
    lease_until_ms   INTEGER,
    node             BLOB,
    claimed_at_ms    INTEGER,
    created_at_ms    INTEGER NOT NULL,
    sent_at_ms       INTEGER,
    status           INTEGER,
    last_error       TEXT
) STRICT;
CREATE INDEX oncebox_outbox_ready ON oncebox_outbox (destination, due_at_ms, id) WHERE state = 'ready';
CREATE INDEX oncebox_outbox_claimed ON oncebox_outbox (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX oncebox_outbox_dead ON oncebox_outbox (id) WHERE state = 'dead';
CREATE INDEX oncebox_outbox_in_order ON oncebox_outbox (destination, order_key, id)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed');
CREATE INDEX oncebox_outbox_of_event ON oncebox_outbox (key) WHERE key IS NOT NULL;

-- Attempts that did not end in sent; the one that did is the message itself.
CREATE TABLE oncebox_outbox_attempts (
    id            BLOB NOT NULL,
    attempt       INTEGER NOT NULL,
    node          BLOB,
    started_at_ms INTEGER,
    ended_at_ms   INTEGER NOT NULL,
    outcome       TEXT NOT NULL CHECK (outcome IN ('failed', 'dead', 'lost')),
    status        INTEGER,
    error         TEXT,
    PRIMARY KEY (id, attempt)
) STRICT, WITHOUT ROWID;

-- The first bytes of the latest answer, where it had any.
CREATE TABLE oncebox_outbox_answers (
    id    BLOB NOT NULL PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    body  BLOB NOT NULL
) STRICT;

-- What every node must know about a destination.
CREATE TABLE oncebox_destinations (
    destination TEXT NOT NULL PRIMARY KEY,
    attempts    INTEGER NOT NULL CHECK (attempts > 0),
    ordered     INTEGER NOT NULL CHECK (ordered IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE VIEW oncebox_outbox_v1 AS
SELECT lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-' || substr(hex(id), 13, 4) || '-' ||
             substr(hex(id), 17, 4) || '-' || substr(hex(id), 21)) AS id,
       destination, idempotency_key, state, attempt,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at_ms / 1000.0, 'unixepoch') AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', sent_at_ms / 1000.0, 'unixepoch') AS sent_at, last_error
FROM oncebox_outbox;

-- How SQL sends: insert into oncebox_send (destination, body, delivery, step) values ('crm', …, :delivery, 'notify').
-- Optional: step ('send'), path, method, headers, key (without a delivery), order_key. A message that is there already
-- stays as it is.
CREATE VIEW oncebox_send AS
SELECT destination, body, step, NULL AS delivery, path, method, headers, NULL AS key, order_key FROM oncebox_outbox
WHERE false;

-- The time is the delivery's claim, which has the program's own clock; what belongs to no delivery is due at once.
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
    SELECT RAISE(ABORT, 'oncebox: this step was sent already in this attempt; name each step of a delivery differently')
    FROM oncebox_deliveries d JOIN oncebox_outbox o
        ON o.delivery = d.delivery AND o.destination = NEW.destination AND o.step = coalesce(NEW.step, 'send')
       AND o.delivery_attempt = d.attempt
    WHERE d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
      AND o.idempotency_key = lower(substr(hex(d.delivery), 1, 8) || '-' || substr(hex(d.delivery), 9, 4) || '-' ||
              substr(hex(d.delivery), 13, 4) || '-' || substr(hex(d.delivery), 17, 4) || '-' ||
              substr(hex(d.delivery), 21)) || '/' || NEW.destination || '/' || coalesce(NEW.step, 'send');
    INSERT INTO oncebox_outbox (id, destination, idempotency_key, path, method, headers, body, order_key, key, delivery,
                                handler, step, delivery_attempt, due_at_ms, created_at_ms)
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
           coalesce(d.claimed_at_ms, 0), now.ms
    FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS ms,
                 (SELECT coalesce(max(rowid), 0) + 1 FROM oncebox_outbox) AS row) now
    LEFT JOIN oncebox_deliveries d
        ON d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
    WHERE true
    ON CONFLICT (idempotency_key) DO NOTHING;
END;
