-- == What a consumer does with what it claimed ==

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
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM oncebox.confirm();
    RETURN false;
END $$;
