-- Leases and due times stand on a clock of their own, which goes on evenly whatever the wall clock does: the database's
-- clock and an offset, which whoever runs a node changes by as much as the database's clock jumped. Times that people
-- read, and by which retention counts, stay on the wall clock.

-- offset_ms: what to add to the database's clock. seen_ms: the latest steady time that a node wrote down; no start goes
-- back behind it. settled: how many jumps were settled, so that two nodes settle one jump once.
CREATE TABLE oncebox.steady_clock (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    offset_ms bigint NOT NULL,
    seen_ms   bigint NOT NULL,
    settled   bigint NOT NULL
);
INSERT INTO oncebox.steady_clock (offset_ms, seen_ms, settled) VALUES (0, 0, 0);
-- The functions run with the caller's own rights, and there is nothing to hide in it.
GRANT SELECT ON oncebox.steady_clock TO PUBLIC;

-- began_ms and steady_ms: the steady time at which a process began, and was last seen. That it went on for others is
-- how a process learns that it was paused itself.
ALTER TABLE oncebox.nodes ADD COLUMN began_ms bigint, ADD COLUMN steady_ms bigint;

-- What is written. A process hands in the time that it expects by its own monotonic clock: a database whose clock
-- jumped a moment ago, which nobody has settled yet, does not count. handed_in is the time on SQLite.
CREATE FUNCTION oncebox.steady_ms(expected bigint DEFAULT NULL, handed_in bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    steady bigint := oncebox.now_ms() + (SELECT c.offset_ms FROM oncebox.steady_clock c);
BEGIN
    RETURN CASE WHEN steady NOT BETWEEN expected - 2000 AND expected + 15000 THEN expected ELSE steady END;
END $$;

-- What is compared with. Null where the database's time is not the expected one, so that nothing is due and no lease has
-- ended.
CREATE FUNCTION oncebox.sure_ms(expected bigint DEFAULT NULL, handed_in bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    steady bigint := oncebox.now_ms() + (SELECT c.offset_ms FROM oncebox.steady_clock c);
BEGIN
    RETURN CASE WHEN steady NOT BETWEEN expected - 2000 AND expected + 15000 THEN NULL ELSE steady END;
END $$;

CREATE OR REPLACE VIEW oncebox.deliveries_v1 AS
SELECT d.key::text AS key, e.source, e.event_id, d.handler, d.state, d.attempt,
       CASE WHEN d.state = 'ready'
            THEN to_timestamp((d.due_at_ms - (SELECT c.offset_ms FROM oncebox.steady_clock c)) / 1000.0)
       END AS next_attempt_at,
       to_timestamp(d.finished_at_ms / 1000.0) AS finished_at, d.last_error
FROM oncebox.deliveries d JOIN oncebox.events e ON e.key = d.key;

-- Brings back what is claimed beyond its lease. Claims do it themselves, because no process of ours may be running.
CREATE OR REPLACE FUNCTION oncebox.expire(handler text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    WITH ended AS MATERIALIZED (
        SELECT d.delivery FROM oncebox.deliveries d
        WHERE d.state = 'claimed' AND d.handler = expire.handler AND d.lease_until_ms < (SELECT oncebox.steady_ms())
        ORDER BY d.lease_until_ms LIMIT 500 FOR UPDATE SKIP LOCKED
    ), returned AS (
        UPDATE oncebox.deliveries d
        SET state = CASE WHEN d.attempt - d.attempts_before >= h.attempts THEN 'dead' ELSE 'ready' END,
            finished_at_ms = CASE WHEN d.attempt - d.attempts_before >= h.attempts THEN now_ms.at END,
            due_at_ms = now_ms.steady, last_error = 'the lease ended without an answer', lost = d.lost + 1
        FROM oncebox.handlers h, (SELECT oncebox.now_ms() AS at, oncebox.steady_ms() AS steady) now_ms
        WHERE h.handler = d.handler AND d.delivery = ANY(ARRAY(SELECT delivery FROM ended))
        RETURNING d.delivery, d.attempt, d.node, d.claimed_at_ms, now_ms.at, d.last_error
    )
    INSERT INTO oncebox.attempts (delivery, attempt, node, started_at_ms, ended_at_ms, outcome, error)
    SELECT r.delivery, r.attempt, r.node, r.claimed_at_ms, r.at, 'lost', r.last_error FROM returned r
    ON CONFLICT (delivery, attempt) DO NOTHING
$$;

-- What the workers' claim does, for one handler: oldest due first; within an order key only the oldest, none while another
-- is claimed; a claim beyond the attempts, or of an event whose payload is gone, makes a dead letter.
CREATE OR REPLACE FUNCTION oncebox.take(handler text, most integer, lease_ms bigint)
RETURNS TABLE (delivery uuid, token uuid, key text, source text, event_id text, type text, body bytea, attempt integer,
               received_at timestamptz, lease_until timestamptz)
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    WITH chosen AS MATERIALIZED (
        SELECT one.delivery, h.attempts, NOT EXISTS (SELECT 1 FROM oncebox.payloads p WHERE p.key = one.key) AS gone
        FROM oncebox.handlers h
        CROSS JOIN LATERAL (
            SELECT d.delivery, d.key FROM oncebox.deliveries d
            WHERE d.handler = take.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.steady_ms())
              AND (d.order_key IS NULL OR NOT EXISTS (
                  SELECT 1 FROM oncebox.deliveries o
                  WHERE o.handler = d.handler AND o.order_key = d.order_key
                    AND o.state IN ('ready', 'claimed', 'dead', 'held') AND o.delivery <> d.delivery
                    AND (o.state = 'claimed' OR (o.key < d.key AND (o.state = 'ready' OR h.on_dead = 'block')))))
            ORDER BY d.due_at_ms LIMIT take.most FOR UPDATE SKIP LOCKED
        ) one
        WHERE h.handler = take.handler AND h.paused = 0
    ), claimed AS (
        UPDATE oncebox.deliveries d
        SET state = CASE WHEN d.attempt - d.attempts_before >= c.attempts OR c.gone THEN 'dead' ELSE 'claimed' END,
            attempt = CASE WHEN d.attempt - d.attempts_before >= c.attempts THEN d.attempt ELSE d.attempt + 1 END,
            last_error = CASE WHEN d.attempt - d.attempts_before >= c.attempts
                              THEN coalesce(d.last_error, 'the attempts are used up')
                              WHEN c.gone THEN 'the payload is gone' ELSE d.last_error END,
            finished_at_ms = CASE WHEN d.attempt - d.attempts_before >= c.attempts OR c.gone THEN now_ms.at END,
            token = gen_random_uuid(), node = NULL, claimed_at_ms = now_ms.at,
            lease_until_ms = now_ms.steady + take.lease_ms
        FROM chosen c, (SELECT oncebox.now_ms() AS at, oncebox.steady_ms() AS steady) now_ms
        WHERE d.delivery = c.delivery AND d.delivery = ANY(ARRAY(SELECT delivery FROM chosen))
        RETURNING d.delivery, d.token, d.key, d.state, d.attempt, d.due_at_ms, d.claimed_at_ms, d.lease_until_ms,
                  d.last_error, c.gone
    ), emptied AS (
        INSERT INTO oncebox.attempts (delivery, attempt, started_at_ms, ended_at_ms, outcome, error)
        SELECT c.delivery, c.attempt, c.claimed_at_ms, c.claimed_at_ms, 'dead', c.last_error FROM claimed c
        WHERE c.gone AND c.last_error = 'the payload is gone'
        ON CONFLICT (delivery, attempt) DO NOTHING
    )
    SELECT c.delivery, c.token, c.key::text, e.source, e.event_id, e.type, p.body, c.attempt::integer,
           to_timestamp(e.received_at_ms / 1000.0),
           to_timestamp((c.lease_until_ms - (SELECT s.offset_ms FROM oncebox.steady_clock s)) / 1000.0)
    FROM claimed c JOIN oncebox.events e ON e.key = c.key JOIN oncebox.payloads p ON p.key = c.key
    WHERE c.state = 'claimed' ORDER BY c.due_at_ms, c.key
$$;

-- Ends an attempt that failed, and says what the delivery is now: `ready` again after a full-jitter pause, or `dead`.
CREATE OR REPLACE FUNCTION oncebox.fail(delivery uuid, token uuid, reason text DEFAULT NULL, retry boolean DEFAULT true)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    one record;
    pause bigint;
    becomes text := 'dead';
    kept text := left(coalesce(reason, 'no reason was given'), 2048);
BEGIN
    PERFORM oncebox.check_holder('fail', delivery, token);
    SELECT d.attempt, d.node, d.claimed_at_ms, greatest(d.attempt - d.attempts_before, 1) AS used,
           coalesce(h.attempts, 12) AS attempts, coalesce(h.base_ms, 5000) AS base_ms,
           coalesce(h.cap_ms, 3600000) AS cap_ms, oncebox.now_ms() AS now_ms,
           (SELECT s.offset_ms FROM oncebox.steady_clock s) AS offset_ms
    INTO one
    FROM oncebox.deliveries d LEFT JOIN oncebox.handlers h ON h.handler = d.handler
    WHERE d.delivery = fail.delivery AND d.token = fail.token AND d.state = 'claimed' FOR UPDATE OF d;
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
    IF coalesce(retry, true) AND one.used < one.attempts THEN
        becomes := 'ready';
        pause := floor(random() * (least(one.cap_ms, one.base_ms * power(2::float8, least(one.used - 1, 40))) + 1));
    END IF;
    -- As many bytes as the workers keep.
    WHILE octet_length(kept) > 2048 LOOP
        kept := left(kept, -greatest(1, (octet_length(kept) - 2048) / 4));
    END LOOP;
    INSERT INTO oncebox.attempts AS a (delivery, attempt, node, started_at_ms, ended_at_ms, outcome, error)
    VALUES (fail.delivery, one.attempt, one.node, one.claimed_at_ms, one.now_ms,
            CASE WHEN pause IS NULL THEN 'dead' ELSE 'failed' END, kept)
    ON CONFLICT ON CONSTRAINT attempts_pkey DO UPDATE SET ended_at_ms = excluded.ended_at_ms, outcome = excluded.outcome,
        status = NULL, error = excluded.error;
    UPDATE oncebox.deliveries d
    SET state = becomes, last_error = kept, lease_until_ms = NULL, lost = 0,
        due_at_ms = coalesce(one.now_ms + one.offset_ms + pause, d.due_at_ms),
        finished_at_ms = CASE WHEN pause IS NULL THEN one.now_ms END
    WHERE d.delivery = fail.delivery;
    RETURN becomes;
END $$;

-- Keeps a delivery for so long from now (the handler's lease where nothing is said), and says until when.
CREATE OR REPLACE FUNCTION oncebox.extend(delivery uuid, token uuid, lease interval DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    until_ms bigint;
BEGIN
    PERFORM oncebox.check_holder('extend', delivery, token);
    UPDATE oncebox.deliveries d
    SET lease_until_ms = oncebox.steady_ms() + coalesce(oncebox.lease_ms(extend.lease), (
        SELECT h.lease_ms FROM oncebox.handlers h WHERE h.handler = d.handler), 60000)
    WHERE d.delivery = extend.delivery AND d.token = extend.token AND d.state = 'claimed'
    RETURNING d.lease_until_ms - (SELECT s.offset_ms FROM oncebox.steady_clock s) INTO until_ms;
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
    RETURN to_timestamp(until_ms / 1000.0);
END $$;

-- Puts a delivery back that was not begun, at a clean stop: it is due at once and the attempt was none.
CREATE OR REPLACE FUNCTION oncebox.give_back(delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    PERFORM oncebox.check_holder('give_back', delivery, token);
    UPDATE oncebox.deliveries d
    SET state = 'ready', attempt = d.attempt - 1, lease_until_ms = NULL, due_at_ms = oncebox.steady_ms()
    WHERE d.delivery = give_back.delivery AND d.token = give_back.token AND d.state = 'claimed';
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
END $$;

-- Writes an outbox message in the caller's transaction and gives its id. Its key is made from delivery, destination and
-- step, or from the key that is given, or is fresh. A message that an earlier claim wrote stays as it is; the same step
-- twice in one claim is a mistake.
CREATE OR REPLACE FUNCTION oncebox.send(destination text, body bytea, delivery uuid DEFAULT NULL, step text DEFAULT NULL,
                             path text DEFAULT NULL, method text DEFAULT NULL, headers jsonb DEFAULT NULL,
                             key text DEFAULT NULL, order_key text DEFAULT NULL)
RETURNS uuid LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    writer record;
    named text := CASE WHEN delivery IS NOT NULL THEN coalesce(step, 'send') END;
    unique_key text;
    written uuid;
    earlier record;
    now_ms bigint := oncebox.now_ms();
BEGIN
    PERFORM oncebox.check_message(destination, body, delivery, step, path, method, headers, key, order_key);
    SELECT d.key, d.handler, d.attempt, d.order_key, d.token INTO writer
    FROM oncebox.deliveries d WHERE d.delivery = send.delivery;
    IF delivery IS NOT NULL AND NOT FOUND THEN
        RAISE EXCEPTION 'oncebox: there is no delivery %', delivery USING ERRCODE = '22023';
    END IF;
    unique_key := coalesce(delivery || '/' || destination || '/' || named, destination || '/' || send.key,
                           gen_random_uuid()::text);
    INSERT INTO oncebox.outbox AS o (id, destination, idempotency_key, path, method, headers, body, order_key, key,
                                     delivery, handler, step, delivery_attempt, delivery_token, due_at_ms,
                                     created_at_ms)
    VALUES (oncebox.message_id(), send.destination, unique_key, coalesce(send.path, ''),
            coalesce(upper(send.method), 'POST'), coalesce(send.headers, '{}')::text, send.body,
            coalesce(send.order_key, replace(writer.order_key::text, '-', ''), replace(writer.key::text, '-', '')),
            writer.key, send.delivery, writer.handler, named, writer.attempt, writer.token,
            oncebox.steady_ms(), now_ms)
    ON CONFLICT (idempotency_key) DO NOTHING RETURNING o.id INTO written;
    IF FOUND THEN
        RETURN written;
    END IF;
    SELECT o.id, o.delivery_attempt, o.delivery_token INTO earlier
    FROM oncebox.outbox o WHERE o.idempotency_key = unique_key;
    -- What an older version wrote does not know its claim.
    IF coalesce(earlier.delivery_token = writer.token, earlier.delivery_attempt = writer.attempt) THEN
        RAISE EXCEPTION 'oncebox: step % was sent to % already in this claim', named, destination
            USING ERRCODE = '23505', HINT = 'Name each step of a delivery differently.';
    END IF;
    RETURN earlier.id;
END $$;
