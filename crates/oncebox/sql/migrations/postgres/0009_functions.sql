-- The functions for every language. All run with the caller's rights and the caller's transaction, keep nothing in the
-- session (a transaction-mode pooler may stand between), and obey the rules of the workers, so that both may work on one
-- handler side by side. Errors of their own: OB001 the lease was lost, OB002 the delivery is done already.

-- A key of fixed size made from parts of any: each is hashed with its length before it.
CREATE FUNCTION oncebox.mark(kind text, VARIADIC parts text[]) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT encode(substr(sha256(string_agg(int8send(octet_length(part.bytes)::bigint) || part.bytes, ''::bytea
                                           ORDER BY part.place)), 1, 16), 'hex')::uuid
    FROM (SELECT u.place, convert_to(u.text, 'UTF8') AS bytes
          FROM unnest(array_prepend(kind, parts)) WITH ORDINALITY AS u (text, place)) part
$$;

-- Milliseconds of a lease that a caller asks for, within the same bounds as everywhere.
CREATE FUNCTION oncebox.lease_ms(lease interval) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF lease < interval '1 second' OR lease > interval '1 day' THEN
        RAISE EXCEPTION 'oncebox: a lease is from one second to one day, not %', lease USING ERRCODE = '22023';
    END IF;
    RETURN floor(extract(epoch FROM lease) * 1000)::bigint;
END $$;

-- Says why a delivery is not the caller's. Raising is the point: everything of the caller's transaction rolls back.
CREATE FUNCTION oncebox.refuse(delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM oncebox.deliveries d
               WHERE d.delivery = refuse.delivery AND d.token = refuse.token AND d.state = 'done') THEN
        RAISE EXCEPTION 'oncebox: delivery % is done already', delivery USING ERRCODE = 'OB002',
            HINT = 'It was finished with this very token, perhaps by a commit whose answer was lost. Roll back.';
    END IF;
    RAISE EXCEPTION 'oncebox: the lease of delivery % was lost', delivery USING ERRCODE = 'OB001',
        HINT = 'It was taken back or claimed by somebody else. Roll back: it runs there.';
END $$;

-- The primitive: true the first time, false while remembered. A second caller waits until the first has ended. An id
-- that is null would be forgotten as a duplicate, so it is an error.
CREATE FUNCTION oncebox.once(scope text, id text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF scope IS NULL OR id IS NULL THEN
        RAISE EXCEPTION 'oncebox: once needs a scope and an id' USING ERRCODE = '22004';
    END IF;
    INSERT INTO oncebox.remembered (mark, at_ms) VALUES (oncebox.mark('once', scope, id), oncebox.now_ms())
    ON CONFLICT (mark) DO NOTHING;
    RETURN FOUND;
END $$;

-- Brings back what is claimed beyond its lease. Claims do it themselves, because no process of ours may be running.
CREATE FUNCTION oncebox.expire(handler text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    WITH ended AS MATERIALIZED (
        SELECT d.delivery FROM oncebox.deliveries d
        WHERE d.state = 'claimed' AND d.handler = expire.handler AND d.lease_until_ms < (SELECT oncebox.now_ms())
        ORDER BY d.lease_until_ms LIMIT 500 FOR UPDATE SKIP LOCKED
    ), returned AS (
        UPDATE oncebox.deliveries d
        SET state = CASE WHEN d.attempt - d.attempts_before >= h.attempts THEN 'dead' ELSE 'ready' END,
            finished_at_ms = CASE WHEN d.attempt - d.attempts_before >= h.attempts THEN now_ms.at END,
            due_at_ms = now_ms.at, last_error = 'the lease ended without an answer', lost = d.lost + 1
        FROM oncebox.handlers h, (SELECT oncebox.now_ms() AS at) now_ms
        WHERE h.handler = d.handler AND d.delivery = ANY(ARRAY(SELECT delivery FROM ended))
        RETURNING d.delivery, d.attempt, d.node, d.claimed_at_ms, d.due_at_ms, d.last_error
    )
    INSERT INTO oncebox.attempts (delivery, attempt, node, started_at_ms, ended_at_ms, outcome, error)
    SELECT r.delivery, r.attempt, r.node, r.claimed_at_ms, r.due_at_ms, 'lost', r.last_error FROM returned r
    ON CONFLICT (delivery, attempt) DO NOTHING
$$;

-- What the workers' claim does, for one handler: oldest due first; within an order key only the oldest, none while another
-- is claimed; a claim beyond the attempts, or of an event whose payload is gone, makes a dead letter.
CREATE FUNCTION oncebox.take(handler text, most integer, lease_ms bigint)
RETURNS TABLE (delivery uuid, token uuid, key text, source text, event_id text, type text, body bytea, attempt integer,
               received_at timestamptz, lease_until timestamptz)
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    WITH chosen AS MATERIALIZED (
        SELECT one.delivery, h.attempts, NOT EXISTS (SELECT 1 FROM oncebox.payloads p WHERE p.key = one.key) AS gone
        FROM oncebox.handlers h
        CROSS JOIN LATERAL (
            SELECT d.delivery, d.key FROM oncebox.deliveries d
            WHERE d.handler = take.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.now_ms())
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
            token = gen_random_uuid(), node = NULL, claimed_at_ms = now_ms.at, lease_until_ms = now_ms.at + take.lease_ms
        FROM chosen c, (SELECT oncebox.now_ms() AS at) now_ms
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
           to_timestamp(e.received_at_ms / 1000.0), to_timestamp(c.lease_until_ms / 1000.0)
    FROM claimed c JOIN oncebox.events e ON e.key = c.key JOIN oncebox.payloads p ON p.key = c.key
    WHERE c.state = 'claimed' ORDER BY c.due_at_ms, c.key
$$;

-- Takes up to max deliveries, for as long as the lease (the handler's own where none is given), and counts the attempt.
-- Call it in a short transaction of its own: what it took is nobody else's once that commits.
CREATE FUNCTION oncebox.claim(handler text, max integer DEFAULT 10, lease interval DEFAULT NULL)
RETURNS TABLE (delivery uuid, token uuid, key text, source text, event_id text, type text, body bytea, attempt integer,
               received_at timestamptz, lease_until timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    wanted bigint;
BEGIN
    IF max IS NULL OR max NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'oncebox: max is from 1 to 1000' USING ERRCODE = '22023';
    END IF;
    SELECT coalesce(oncebox.lease_ms(claim.lease), h.lease_ms) INTO wanted
    FROM oncebox.handlers h WHERE h.handler = claim.handler;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'oncebox: there is no handler %', quote_nullable(handler) USING ERRCODE = '42704',
            HINT = 'A handler is known once a server with it in its config, or an Inbox, has started.';
    END IF;
    PERFORM oncebox.expire(handler);
    FOR try IN 1..3 LOOP
        BEGIN
            -- Its rows are sorted, so they come all or none: nothing is handed out before an error can happen.
            RETURN QUERY SELECT * FROM oncebox.take(claim.handler, claim.max, wanted);
            RETURN;
        EXCEPTION WHEN unique_violation OR deadlock_detected THEN
            -- Another claim took one of the same order key at this instant; the next look sees it.
            NULL;
        END;
    END LOOP;
END $$;

-- Marks a delivery done, in the transaction of its effect. Past the lease it still counts, until somebody else claims.
CREATE FUNCTION oncebox.finish(delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    UPDATE oncebox.deliveries d SET state = 'done', finished_at_ms = oncebox.now_ms()
    WHERE d.delivery = finish.delivery AND d.token = finish.token AND d.state = 'claimed';
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
END $$;

-- Ends an attempt that failed, and says what the delivery is now: `ready` again after a full-jitter pause, or `dead`.
CREATE FUNCTION oncebox.fail(delivery uuid, token uuid, reason text DEFAULT NULL, retry boolean DEFAULT true)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    one record;
    pause bigint;
    becomes text := 'dead';
    kept text := left(coalesce(reason, 'no reason was given'), 2048);
BEGIN
    SELECT d.attempt, d.node, d.claimed_at_ms, greatest(d.attempt - d.attempts_before, 1) AS used,
           coalesce(h.attempts, 12) AS attempts, coalesce(h.base_ms, 5000) AS base_ms,
           coalesce(h.cap_ms, 3600000) AS cap_ms, oncebox.now_ms() AS now_ms
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
        due_at_ms = coalesce(one.now_ms + pause, d.due_at_ms), finished_at_ms = CASE WHEN pause IS NULL THEN one.now_ms END
    WHERE d.delivery = fail.delivery;
    RETURN becomes;
END $$;

-- Keeps a delivery for so long from now (the handler's lease where nothing is said), and says until when.
CREATE FUNCTION oncebox.extend(delivery uuid, token uuid, lease interval DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    until_ms bigint;
BEGIN
    UPDATE oncebox.deliveries d
    SET lease_until_ms = oncebox.now_ms() + coalesce(oncebox.lease_ms(extend.lease), (
        SELECT h.lease_ms FROM oncebox.handlers h WHERE h.handler = d.handler), 60000)
    WHERE d.delivery = extend.delivery AND d.token = extend.token AND d.state = 'claimed'
    RETURNING d.lease_until_ms INTO until_ms;
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
    RETURN to_timestamp(until_ms / 1000.0);
END $$;

-- Puts a delivery back that was not begun, at a clean stop: it is due at once and the attempt was none.
CREATE FUNCTION oncebox.give_back(delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    UPDATE oncebox.deliveries d
    SET state = 'ready', attempt = d.attempt - 1, lease_until_ms = NULL, due_at_ms = oncebox.now_ms()
    WHERE d.delivery = give_back.delivery AND d.token = give_back.token AND d.state = 'claimed';
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
END $$;

-- True if the version is newer than what the handler applied for this object, and records it; or_equal lets the same
-- version run again, where versions are coarse. The row's lock makes two consumers of one object take turns.
CREATE FUNCTION oncebox.newer(handler text, order_key text, version bigint, or_equal boolean DEFAULT false)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF handler IS NULL OR order_key IS NULL OR version IS NULL THEN
        RAISE EXCEPTION 'oncebox: newer needs a handler, an order key and a version' USING ERRCODE = '22004';
    END IF;
    INSERT INTO oncebox.versions AS v (handler, order_key, version, applied_at_ms)
    VALUES (newer.handler, oncebox.mark('order', newer.order_key), newer.version, oncebox.now_ms())
    ON CONFLICT ON CONSTRAINT versions_pkey
    DO UPDATE SET version = excluded.version, applied_at_ms = excluded.applied_at_ms
    WHERE v.version < excluded.version OR (v.version = excluded.version AND coalesce(newer.or_equal, false));
    RETURN FOUND;
END $$;

-- What a message must be, said in words before the table says it in its own.
CREATE FUNCTION oncebox.check_message(destination text, body bytea, delivery uuid, step text, headers jsonb, key text)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    wrong text := CASE
        WHEN destination IS NULL OR destination !~ '^[A-Za-z0-9._-]{1,64}$'
            THEN 'a destination is 1 to 64 letters, digits, dots, dashes or underscores'
        WHEN body IS NULL THEN 'a message needs a body, which may be empty'
        WHEN delivery IS NOT NULL AND key IS NOT NULL
            THEN 'a message of a delivery has its key from its step, so give step and not key'
        WHEN delivery IS NULL AND step IS NOT NULL THEN 'a step belongs to a delivery, so give that too'
        WHEN step !~ '^[A-Za-z0-9._-]{1,64}$' THEN 'a step is 1 to 64 letters, digits, dots, dashes or underscores'
        WHEN key !~ '^[!-.0-~]{1,200}$' THEN 'a key is 1 to 200 visible ASCII characters without a slash'
        WHEN jsonb_typeof(headers) <> 'object' OR jsonb_path_exists(headers, '$.* ? (@.type() != "string")')
            THEN 'headers are a JSON object of texts'
    END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'oncebox: %', wrong USING ERRCODE = '22023';
    END IF;
END $$;

-- Writes an outbox message in the caller's transaction and gives its id. Its key is made from delivery, destination and
-- step, or from the key that is given, or is fresh. A message that an earlier attempt wrote stays as it is; the same
-- step twice in one attempt is a mistake.
CREATE FUNCTION oncebox.send(destination text, body bytea, delivery uuid DEFAULT NULL, step text DEFAULT NULL,
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
    PERFORM oncebox.check_message(destination, body, delivery, step, headers, key);
    SELECT d.key, d.handler, d.attempt, d.order_key INTO writer
    FROM oncebox.deliveries d WHERE d.delivery = send.delivery;
    IF delivery IS NOT NULL AND NOT FOUND THEN
        RAISE EXCEPTION 'oncebox: there is no delivery %', delivery USING ERRCODE = '22023';
    END IF;
    unique_key := coalesce(delivery || '/' || destination || '/' || named, destination || '/' || send.key,
                           gen_random_uuid()::text);
    INSERT INTO oncebox.outbox AS o (id, destination, idempotency_key, path, method, headers, body, order_key, key,
                                     delivery, handler, step, delivery_attempt, due_at_ms, created_at_ms)
    VALUES (oncebox.message_id(), send.destination, unique_key, coalesce(send.path, ''),
            coalesce(upper(send.method), 'POST'), coalesce(send.headers, '{}')::text, send.body,
            coalesce(send.order_key, replace(writer.order_key::text, '-', ''), replace(writer.key::text, '-', '')),
            writer.key, send.delivery, writer.handler, named, writer.attempt, now_ms, now_ms)
    ON CONFLICT (idempotency_key) DO NOTHING RETURNING o.id INTO written;
    IF FOUND THEN
        RETURN written;
    END IF;
    SELECT o.id, o.delivery_attempt INTO earlier FROM oncebox.outbox o WHERE o.idempotency_key = unique_key;
    IF earlier.delivery_attempt = writer.attempt THEN
        RAISE EXCEPTION 'oncebox: step % was sent to % already in this attempt', named, destination
            USING ERRCODE = '23505', HINT = 'Name each step of a delivery differently.';
    END IF;
    RETURN earlier.id;
END $$;

-- The same for a body that is text, JSON above all: sent as UTF-8.
CREATE FUNCTION oncebox.send(destination text, body text, delivery uuid DEFAULT NULL, step text DEFAULT NULL,
                             path text DEFAULT NULL, method text DEFAULT NULL, headers jsonb DEFAULT NULL,
                             key text DEFAULT NULL, order_key text DEFAULT NULL)
RETURNS uuid LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT oncebox.send(destination, convert_to(body, 'UTF8'), delivery, step, path, method, headers, key, order_key)
$$;
