-- The functions. The files of this folder are run again, one behind the other, whenever their text is another than the one
-- that was run last, so they are edited in place. Every statement can be run over the one before: CREATE OR REPLACE, and
-- where the arguments or the answer of a function change, a DROP FUNCTION IF EXISTS of the old form before it. Give the text
-- its next number in database/migrations.rs once the number before was released: the higher one wins, so a node of an older
-- version leaves a newer text alone.
-- Functions alone: replacing one waits for nobody. A view would wait for whoever reads it, a backup for instance.
--
-- All functions run with the caller's rights and the caller's transaction, keep nothing in the session (a transaction-mode
-- pooler may stand between), and obey the rules of the workers, so that both may work on one handler side by side. Errors of
-- their own: OB001 the lease was lost, OB002 the delivery is done already.

-- == The time ==

-- The database's clock in milliseconds: the wall clock. The argument is what SQLite, which has no clock of its own to
-- offer, is handed instead; one text then serves both databases.
CREATE OR REPLACE FUNCTION oncebox.now_ms(handed_in bigint DEFAULT NULL) RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- What is written. A process hands in the time that it expects by its own monotonic clock: a database whose clock
-- jumped a moment ago, which nobody has settled yet, does not count. handed_in is the time on SQLite.
CREATE OR REPLACE FUNCTION oncebox.steady_ms(expected bigint DEFAULT NULL, handed_in bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    steady bigint := oncebox.now_ms() + (SELECT c.offset_ms FROM oncebox.steady_clock c);
BEGIN
    RETURN CASE WHEN steady NOT BETWEEN expected - 2000 AND expected + 15000 THEN expected ELSE steady END;
END $$;

-- What is compared with. Null where the database's time is not the expected one, so that nothing is due and no lease has
-- ended.
CREATE OR REPLACE FUNCTION oncebox.sure_ms(expected bigint DEFAULT NULL, handed_in bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
DECLARE
    steady bigint := oncebox.now_ms() + (SELECT c.offset_ms FROM oncebox.steady_clock c);
BEGIN
    RETURN CASE WHEN steady NOT BETWEEN expected - 2000 AND expected + 15000 THEN NULL ELSE steady END;
END $$;

-- == Names ==

-- A key of fixed size made from parts of any: each is hashed with its length before it.
CREATE OR REPLACE FUNCTION oncebox.mark(kind text, VARIADIC parts text[]) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT encode(substr(sha256(string_agg(int8send(octet_length(part.bytes)::bigint) || part.bytes, ''::bytea
                                           ORDER BY part.place)), 1, 16), 'hex')::uuid
    FROM (SELECT u.place, convert_to(u.text, 'UTF8') AS bytes
          FROM unnest(array_prepend(kind, parts)) WITH ORDINALITY AS u (text, place)) part
$$;

-- The name of a message: a UUIDv7 whose time is as fine as the database's clock, so that messages of one transaction
-- stand in the order in which they were written.
CREATE OR REPLACE FUNCTION oncebox.message_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(now.us / 1000), 12, '0') || '7' || lpad(to_hex(now.us % 1000 * 4), 3, '0') ||
            substr(replace(gen_random_uuid()::text, '-', ''), 17))::uuid
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) now
$$;

-- == The standby ==

-- For a transaction that read that something is there and writes nothing. Where a standby must confirm commits, this one waits
-- for it as well. Without it nobody would: a primary that restarts shows rows that no standby has, and a promotion would
-- lose what we called a duplicate. A transaction number alone would not do, because a commit without a log record does not
-- wait.
CREATE OR REPLACE FUNCTION oncebox.confirm() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_logical_emit_message(true, 'oncebox', '');
    END IF;
    RETURN true;
END $$;

-- == What is wrong with a call, said in words and with a code before a table says it in its own ==

-- Milliseconds of a lease that a caller asks for, within the same bounds as everywhere.
CREATE OR REPLACE FUNCTION oncebox.lease_ms(lease interval) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF lease < interval '1 second' OR lease > interval '1 day' THEN
        RAISE EXCEPTION 'oncebox: a lease is from one second to one day, not %', lease USING ERRCODE = '22023';
    END IF;
    RETURN floor(extract(epoch FROM lease) * 1000)::bigint;
END $$;

-- What only the holder of a delivery may do needs both of its names.
CREATE OR REPLACE FUNCTION oncebox.check_holder(verb text, delivery uuid, token uuid) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
BEGIN
    IF delivery IS NULL OR token IS NULL THEN
        RAISE EXCEPTION 'oncebox: % needs a %, which is null', verb,
            CASE WHEN delivery IS NULL THEN 'delivery' ELSE 'token' END
            USING ERRCODE = '22004', HINT = 'Give both as claim returned them.';
    END IF;
END $$;

-- A handler that no server ever had is a slip of the pen.
CREATE OR REPLACE FUNCTION oncebox.check_handler(verb text, handler text) RETURNS void
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

-- Says why a delivery is not the caller's. Raising is the point: everything of the caller's transaction rolls back.
CREATE OR REPLACE FUNCTION oncebox.refuse(delivery uuid, token uuid) RETURNS void
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

-- == once ==

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
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM oncebox.confirm();
    RETURN false;
END $$;
