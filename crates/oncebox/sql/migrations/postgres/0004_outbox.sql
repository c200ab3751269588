-- What handlers want sent, written in their own transaction. Until now nothing wrote the table, so it is made anew.

DROP VIEW oncebox.outbox_v1;
DROP TABLE oncebox.outbox;

-- The name of a message: a UUIDv7 whose time is as fine as the database's clock, so that messages of one transaction
-- stand in the order in which they were written.
CREATE FUNCTION oncebox.message_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(now.us / 1000), 12, '0') || '7' || lpad(to_hex(now.us % 1000 * 4), 3, '0') ||
            substr(replace(gen_random_uuid()::text, '-', ''), 17))::uuid
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) now
$$;

-- idempotency_key: `{delivery}/{destination}/{step}` where a delivery wrote it (a delivery's key is made from event and
-- handler), `{destination}/{given key}` where the writer gave one, else a fresh UUID. No part holds a slash.
-- path: what is added below the destination's URL. headers: a JSON object of texts.
-- order_key: messages of one key go out one after the other where the destination wants that; where none is given it
-- is the delivery's own order key, else its event's key, in hex.
-- delivery_attempt: the delivery's attempt that wrote it; the same step twice in one attempt is a mistake.
-- attempts_before: the attempts that no longer count, because a replay gave a fresh budget.
-- status: of the latest answer. token stays after the end: an unknown commit is settled by looking whose it is.
CREATE TABLE oncebox.outbox (
    id               uuid PRIMARY KEY,
    destination      text NOT NULL CHECK (destination ~ '^[A-Za-z0-9._-]{1,64}$'),
    idempotency_key  text NOT NULL UNIQUE,
    path             text NOT NULL DEFAULT '' CHECK (length(path) <= 2048),
    method           text NOT NULL DEFAULT 'POST' CHECK (method IN ('POST', 'PUT', 'PATCH', 'DELETE', 'GET')),
    headers          text NOT NULL DEFAULT '{}'
                     CHECK (length(headers) <= 16384 AND jsonb_typeof(headers::jsonb) = 'object'),
    body             bytea NOT NULL CHECK (octet_length(body) <= 16777216),
    order_key        text CHECK (length(order_key) BETWEEN 1 AND 200),
    key              uuid,
    delivery         uuid,
    handler          text,
    step             text CHECK (step ~ '^[A-Za-z0-9._-]{1,64}$'),
    delivery_attempt bigint,
    state            text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'claimed', 'sent', 'dead', 'discarded')),
    attempt          bigint NOT NULL DEFAULT 0,
    attempts_before  bigint NOT NULL DEFAULT 0,
    due_at_ms        bigint NOT NULL,
    token            uuid,
    lease_until_ms   bigint,
    node             uuid,
    claimed_at_ms    bigint,
    created_at_ms    bigint NOT NULL,
    sent_at_ms       bigint,
    status           bigint,
    last_error       text
);
CREATE INDEX outbox_ready ON oncebox.outbox (destination, due_at_ms, id) WHERE state = 'ready';
CREATE INDEX outbox_claimed ON oncebox.outbox (lease_until_ms) WHERE state = 'claimed';
CREATE INDEX outbox_dead ON oncebox.outbox (id) WHERE state = 'dead';
CREATE INDEX outbox_in_order ON oncebox.outbox (destination, order_key, id)
    WHERE order_key IS NOT NULL AND state IN ('ready', 'claimed');
CREATE INDEX outbox_of_event ON oncebox.outbox (key) WHERE key IS NOT NULL;

-- Attempts that did not end in sent; the one that did is the message itself.
CREATE TABLE oncebox.outbox_attempts (
    id            uuid NOT NULL,
    attempt       bigint NOT NULL,
    node          uuid,
    started_at_ms bigint,
    ended_at_ms   bigint NOT NULL,
    outcome       text NOT NULL CHECK (outcome IN ('failed', 'dead', 'lost')),
    status        bigint,
    error         text,
    PRIMARY KEY (id, attempt)
);

-- The first bytes of the latest answer, where it had any.
CREATE TABLE oncebox.outbox_answers (
    id    uuid PRIMARY KEY,
    at_ms bigint NOT NULL,
    body  bytea NOT NULL
);

-- What every node must know about a destination.
CREATE TABLE oncebox.destinations (
    destination text PRIMARY KEY,
    attempts    bigint NOT NULL CHECK (attempts > 0),
    ordered     bigint NOT NULL CHECK (ordered IN (0, 1))
);

CREATE VIEW oncebox.outbox_v1 AS
SELECT id::text AS id, destination, idempotency_key, state, attempt, to_timestamp(created_at_ms / 1000.0) AS created_at,
       to_timestamp(sent_at_ms / 1000.0) AS sent_at, last_error
FROM oncebox.outbox;
