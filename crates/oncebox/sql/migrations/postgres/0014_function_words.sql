-- The functions say what is wrong with a call in words and with a code, before a table says it in its own. A message also
-- knows the claim that wrote it: a claim that was given back was no attempt, so the attempt alone cannot tell the next
-- claim from it.

ALTER TABLE oncebox.outbox ADD COLUMN delivery_token uuid;

-- Whoever may call send reads the new column as well.
DO $$
DECLARE
    role text;
BEGIN
    FOR role IN SELECT CASE WHEN acl.grantee = 0 THEN 'public' ELSE acl.grantee::regrole::text END
                FROM pg_attribute a CROSS JOIN LATERAL aclexplode(a.attacl) acl
                WHERE a.attrelid = 'oncebox.outbox'::regclass AND a.attname = 'delivery_attempt'
                  AND acl.privilege_type = 'SELECT'
    LOOP
        EXECUTE format('GRANT SELECT (delivery_token) ON oncebox.outbox TO %s', role);
    END LOOP;
END $$;

-- What only the holder of a delivery may do needs both of its names.
CREATE FUNCTION oncebox.check_holder(verb text, delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF delivery IS NULL OR token IS NULL THEN
        RAISE EXCEPTION 'oncebox: % needs a %, which is null', verb,
            CASE WHEN delivery IS NULL THEN 'delivery' ELSE 'token' END
            USING ERRCODE = '22004', HINT = 'Give both as claim returned them.';
    END IF;
END $$;

-- A handler that no server ever had is a slip of the pen.
CREATE FUNCTION oncebox.check_handler(verb text, handler text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF handler IS NULL THEN
        RAISE EXCEPTION 'oncebox: % needs a handler, which is null', verb USING ERRCODE = '22004';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM oncebox.handlers h WHERE h.handler = check_handler.handler) THEN
        RAISE EXCEPTION 'oncebox: there is no handler %', quote_literal(handler) USING ERRCODE = '42704',
            HINT = 'A handler is known once a server with it in its config, or an Inbox, has started.';
    END IF;
END $$;

-- The primitive: true the first time, false while remembered. A second caller waits until the first has ended. An id
-- that is null would be forgotten as a duplicate, and one that is empty stands for all that were not found: both are
-- errors.
CREATE OR REPLACE FUNCTION oncebox.once(scope text, id text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF scope IS NULL OR id IS NULL THEN
        RAISE EXCEPTION 'oncebox: once needs a scope and an id' USING ERRCODE = '22004';
    END IF;
    IF scope = '' OR id = '' THEN
        RAISE EXCEPTION 'oncebox: a scope and an id have at least one character' USING ERRCODE = '22023';
    END IF;
    INSERT INTO oncebox.remembered (mark, at_ms) VALUES (oncebox.mark('once', scope, id), oncebox.now_ms())
    ON CONFLICT (mark) DO NOTHING;
    RETURN FOUND;
END $$;

-- Takes up to max deliveries, for as long as the lease (the handler's own where none is given), and counts the attempt.
-- Call it in a short transaction of its own: what it took is nobody else's once that commits.
CREATE OR REPLACE FUNCTION oncebox.claim(handler text, max integer DEFAULT 10, lease interval DEFAULT NULL)
RETURNS TABLE (delivery uuid, token uuid, key text, source text, event_id text, type text, body bytea, attempt integer,
               received_at timestamptz, lease_until timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    wanted bigint;
BEGIN
    IF max IS NULL OR max NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'oncebox: max is from 1 to 1000' USING ERRCODE = '22023';
    END IF;
    PERFORM oncebox.check_handler('claim', handler);
    SELECT coalesce(oncebox.lease_ms(claim.lease), h.lease_ms) INTO wanted
    FROM oncebox.handlers h WHERE h.handler = claim.handler;
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
CREATE OR REPLACE FUNCTION oncebox.finish(delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    PERFORM oncebox.check_holder('finish', delivery, token);
    UPDATE oncebox.deliveries d SET state = 'done', finished_at_ms = oncebox.now_ms()
    WHERE d.delivery = finish.delivery AND d.token = finish.token AND d.state = 'claimed';
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
END $$;

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
CREATE OR REPLACE FUNCTION oncebox.extend(delivery uuid, token uuid, lease interval DEFAULT NULL) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    until_ms bigint;
BEGIN
    PERFORM oncebox.check_holder('extend', delivery, token);
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
CREATE OR REPLACE FUNCTION oncebox.give_back(delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    PERFORM oncebox.check_holder('give_back', delivery, token);
    UPDATE oncebox.deliveries d
    SET state = 'ready', attempt = d.attempt - 1, lease_until_ms = NULL, due_at_ms = oncebox.now_ms()
    WHERE d.delivery = give_back.delivery AND d.token = give_back.token AND d.state = 'claimed';
    IF NOT FOUND THEN
        PERFORM oncebox.refuse(delivery, token);
    END IF;
END $$;

-- True if the version is newer than what the handler applied for this object, and records it; or_equal lets the same
-- version run again, where versions are coarse. The row's lock makes two consumers of one object take turns.
CREATE OR REPLACE FUNCTION oncebox.newer(handler text, order_key text, version bigint, or_equal boolean DEFAULT false)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF handler IS NULL OR order_key IS NULL OR version IS NULL THEN
        RAISE EXCEPTION 'oncebox: newer needs a handler, an order key and a version' USING ERRCODE = '22004';
    END IF;
    PERFORM oncebox.check_handler('newer', handler);
    INSERT INTO oncebox.versions AS v (handler, order_key, version, applied_at_ms)
    VALUES (newer.handler, oncebox.mark('order', newer.order_key), newer.version, oncebox.now_ms())
    ON CONFLICT ON CONSTRAINT versions_pkey
    DO UPDATE SET version = excluded.version, applied_at_ms = excluded.applied_at_ms
    WHERE v.version < excluded.version OR (v.version = excluded.version AND coalesce(newer.or_equal, false));
    RETURN FOUND;
END $$;

-- What a message must be, said in words before the table says it in its own, with the whole row.
DROP FUNCTION oncebox.check_message(text, bytea, uuid, text, jsonb, text);
CREATE FUNCTION oncebox.check_message(destination text, body bytea, delivery uuid, step text, path text, method text,
                                      headers jsonb, key text, order_key text)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    wrong text := CASE
        WHEN destination IS NULL OR destination !~ '^[A-Za-z0-9._-]{1,64}$'
            THEN 'a destination is 1 to 64 letters, digits, dots, dashes or underscores'
        WHEN body IS NULL THEN 'a message needs a body, which may be empty'
        WHEN octet_length(body) > 16777216 THEN 'the body of a message has at most 16 MiB'
        WHEN delivery IS NOT NULL AND key IS NOT NULL
            THEN 'a message of a delivery has its key from its step, so give step and not key'
        WHEN delivery IS NULL AND step IS NOT NULL THEN 'a step belongs to a delivery, so give that too'
        WHEN step !~ '^[A-Za-z0-9._-]{1,64}$' THEN 'a step is 1 to 64 letters, digits, dots, dashes or underscores'
        WHEN upper(method) NOT IN ('POST', 'PUT', 'PATCH', 'DELETE', 'GET')
            THEN 'a method is one of POST, PUT, PATCH, DELETE and GET'
        WHEN length(path) > 2048 THEN 'a path has at most 2048 characters'
        WHEN key !~ '^[!-.0-~]{1,200}$' THEN 'a key is 1 to 200 visible ASCII characters without a slash'
        WHEN length(order_key) NOT BETWEEN 1 AND 200 THEN 'an order key has 1 to 200 characters'
        WHEN jsonb_typeof(headers) <> 'object' OR jsonb_path_exists(headers, '$.* ? (@.type() != "string")')
            THEN 'headers are a JSON object of texts'
        WHEN length(headers::text) > 16384 THEN 'the headers of a message have at most 16 kB'
    END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'oncebox: %', wrong USING ERRCODE = '22023';
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
            writer.key, send.delivery, writer.handler, named, writer.attempt, writer.token, now_ms, now_ms)
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
