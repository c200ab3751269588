-- == claim: the rules of the workers' claim (sql/postgres/claim.sql), for one handler ==

-- Whether a process says that it has begun this claim: the last halves of both names, side by side in its list.
CREATE OR REPLACE FUNCTION oncebox.lists(begun bytea, id uuid, token uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT position(substr(uuid_send(id), 9) || substr(uuid_send(token), 9) IN begun) > 0
$$;

-- Brings back what is claimed beyond its lease. Claims do it themselves, because no process of ours may be running. What a
-- worker had claimed and not begun uses no attempt; what had begun together with others uses one, but not its last.
CREATE OR REPLACE FUNCTION oncebox.expire(handler text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    WITH ended AS MATERIALIZED (
        SELECT d.delivery, d.attempt - d.attempts_before AS used, (SELECT oncebox.now_ms()) AS at,
               (SELECT oncebox.steady_ms()) AS steady,
               CASE WHEN NOT EXISTS (SELECT 1 FROM oncebox.nodes b WHERE b.node = d.node AND b.begun_alone IS NOT NULL)
                    THEN 'alone'
                    WHEN EXISTS (SELECT 1 FROM oncebox.nodes b WHERE b.node = d.node
                                   AND oncebox.lists(b.begun_alone, d.delivery, d.token)) THEN 'alone'
                    WHEN EXISTS (SELECT 1 FROM oncebox.nodes b WHERE b.node = d.node
                                   AND oncebox.lists(b.begun_together, d.delivery, d.token)) THEN 'together'
                    ELSE 'not' END AS begun
        FROM oncebox.deliveries d
        WHERE d.state = 'claimed' AND d.handler = expire.handler AND d.lease_until_ms < (SELECT oncebox.steady_ms())
        ORDER BY d.lease_until_ms LIMIT 500 FOR UPDATE SKIP LOCKED
    ), judged AS MATERIALIZED (
        SELECT e.delivery, e.used, h.attempts, e.at, e.steady, CASE WHEN e.begun = 'not' THEN 0 ELSE 1 END AS suspect,
               CASE WHEN e.begun = 'not' OR (e.begun = 'together' AND e.used >= h.attempts) THEN 1 ELSE 0 END AS unused
        FROM ended e JOIN oncebox.handlers h ON h.handler = expire.handler
    ), returned AS (
        UPDATE oncebox.deliveries d
        SET state = CASE WHEN j.used - j.unused >= j.attempts THEN 'dead' ELSE 'ready' END,
            finished_at_ms = CASE WHEN j.used - j.unused >= j.attempts THEN j.at END,
            attempt = d.attempt - j.unused, due_at_ms = j.steady, lost = d.lost + j.suspect,
            last_error = 'the lease ended without an answer' ||
                         CASE WHEN j.unused > 0 THEN '; no attempt was used' ELSE '' END
        FROM judged j WHERE d.delivery = j.delivery AND d.delivery = ANY(ARRAY(SELECT delivery FROM judged))
        RETURNING d.delivery, d.attempt, d.node, d.claimed_at_ms, j.at, d.last_error, j.unused
    )
    INSERT INTO oncebox.attempts (delivery, attempt, node, started_at_ms, ended_at_ms, outcome, error)
    SELECT r.delivery, r.attempt, r.node, r.claimed_at_ms, r.at, 'lost', r.last_error FROM returned r
    WHERE r.unused = 0
    ON CONFLICT (delivery, attempt) DO NOTHING
$$;

-- Places of what may be claimed for a handler without order: oldest due first, and past whatever others have locked.
CREATE OR REPLACE FUNCTION oncebox.places(handler text, most integer) RETURNS SETOF tid
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT d.ctid FROM oncebox.deliveries d
    WHERE d.handler = places.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.steady_ms())
      AND d.lost = 0
    ORDER BY d.due_at_ms LIMIT places.most FOR UPDATE SKIP LOCKED
$$;

-- The same where order keys matter, with a bound on what is looked at, however many wait behind one key: the first of what
-- is due; and where those are not enough, the heads of some keys from a place that chance chooses, so that no key is left
-- out for ever. Within an order key only the oldest, none while another is claimed; one that waits for its prerequisite is
-- not in the way.
CREATE OR REPLACE FUNCTION oncebox.places_in_order(handler text, most integer, on_dead text, start uuid) RETURNS SETOF tid
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT l.ctid FROM oncebox.deliveries l
    WHERE l.state = 'ready' AND l.ctid = ANY(ARRAY(
        SELECT c.place FROM (
            (SELECT d.ctid AS place, d.key, d.order_key FROM oncebox.deliveries d
             WHERE d.handler = places_in_order.handler AND d.state = 'ready' AND d.due_at_ms <= (SELECT oncebox.steady_ms())
               AND d.lost = 0
             ORDER BY d.due_at_ms LIMIT 1000)
            UNION ALL
            (WITH RECURSIVE upper_keys AS (
                (SELECT o.order_key, 1 AS nth FROM oncebox.deliveries o
                 WHERE o.handler = places_in_order.handler AND o.order_key >= start
                   AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1)
                UNION ALL
                SELECT (SELECT o.order_key FROM oncebox.deliveries o
                        WHERE o.handler = places_in_order.handler AND o.order_key > u.order_key
                          AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1), u.nth + 1
                FROM upper_keys u WHERE u.order_key IS NOT NULL AND u.nth < 500
             ), lower_keys AS (
                (SELECT o.order_key, 1 AS nth FROM oncebox.deliveries o
                 WHERE o.handler = places_in_order.handler AND o.order_key < start
                   AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1)
                UNION ALL
                SELECT (SELECT o.order_key FROM oncebox.deliveries o
                        WHERE o.handler = places_in_order.handler AND o.order_key > u.order_key AND o.order_key < start
                          AND o.state IN ('ready', 'claimed', 'dead', 'held') ORDER BY o.order_key LIMIT 1), u.nth + 1
                FROM lower_keys u WHERE u.order_key IS NOT NULL AND u.nth < 500
             )
             SELECT d.place, d.key, d.order_key
             FROM (SELECT order_key FROM upper_keys UNION ALL SELECT order_key FROM lower_keys) k
             CROSS JOIN LATERAL (
                SELECT o.ctid AS place, o.key, o.order_key, o.due_at_ms, o.lost FROM oncebox.deliveries o
                WHERE o.handler = places_in_order.handler AND o.order_key = k.order_key
                  AND o.state IN ('ready', 'claimed', 'dead', 'held') AND o.state = 'ready'
                  AND (o.waits_for IS NULL OR o.due_at_ms <= (SELECT oncebox.steady_ms()))
                ORDER BY o.key LIMIT 1) d
             WHERE k.order_key IS NOT NULL AND d.due_at_ms <= (SELECT oncebox.steady_ms()) AND d.lost = 0)
        ) c
        WHERE c.order_key IS NULL OR (
            NOT EXISTS (SELECT 1 FROM oncebox.deliveries o WHERE o.handler = places_in_order.handler
                          AND o.order_key = c.order_key AND o.state = 'claimed')
            AND NOT EXISTS (SELECT 1 FROM oncebox.deliveries o WHERE o.handler = places_in_order.handler
                              AND o.order_key = c.order_key AND o.key < c.key
                              AND o.state IN ('ready', 'claimed', 'dead', 'held')
                              AND CASE o.state WHEN 'ready' THEN o.waits_for IS NULL
                                  ELSE places_in_order.on_dead = 'block' END))
        LIMIT places_in_order.most * 4))
    ORDER BY l.due_at_ms LIMIT places_in_order.most FOR UPDATE SKIP LOCKED
$$;

-- The place of one that was lost with its worker before. It may be what took the worker with it, so it is handed out alone.
CREATE OR REPLACE FUNCTION oncebox.places_lost(handler text, on_dead text) RETURNS SETOF tid
LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT l.ctid FROM oncebox.deliveries l
    WHERE l.state = 'ready' AND l.ctid = ANY(ARRAY(
        SELECT c.place FROM (
            SELECT d.ctid AS place, d.key, d.order_key FROM oncebox.deliveries d
            WHERE d.handler = places_lost.handler AND d.state = 'ready' AND d.lost > 0
              AND d.due_at_ms <= (SELECT oncebox.steady_ms())
            ORDER BY d.due_at_ms LIMIT 1000) c
        WHERE c.order_key IS NULL OR (
            NOT EXISTS (SELECT 1 FROM oncebox.deliveries o WHERE o.handler = places_lost.handler
                          AND o.order_key = c.order_key AND o.state = 'claimed')
            AND NOT EXISTS (SELECT 1 FROM oncebox.deliveries o WHERE o.handler = places_lost.handler
                              AND o.order_key = c.order_key AND o.key < c.key
                              AND o.state IN ('ready', 'claimed', 'dead', 'held')
                              AND CASE o.state WHEN 'ready' THEN o.waits_for IS NULL
                                  ELSE places_lost.on_dead = 'block' END))
        LIMIT 8))
    ORDER BY l.due_at_ms LIMIT 1 FOR UPDATE SKIP LOCKED
$$;

-- What the workers' claim does, for one handler: oldest due first; what was lost with its worker before comes alone; within
-- an order key only the oldest, none while another is claimed; no further one once the bodies have 8 MiB, and what is
-- locked beyond them stays as it is; a claim beyond the attempts, or of an event whose payload is gone, makes a dead letter.
CREATE OR REPLACE FUNCTION oncebox.take(handler text, most integer, lease_ms bigint)
RETURNS TABLE (delivery uuid, token uuid, key text, source text, event_id text, type text, body bytea, attempt integer,
               received_at timestamptz, lease_until timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, oncebox, pg_temp AS $$
#variable_conflict use_column
DECLARE
    wanted record;
    places tid[];
BEGIN
    SELECT h.attempts, h.on_dead INTO wanted FROM oncebox.handlers h WHERE h.handler = take.handler AND h.paused = 0;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    places := ARRAY(SELECT oncebox.places_lost(take.handler, wanted.on_dead));
    IF cardinality(places) = 0 THEN
        IF EXISTS (SELECT 1 FROM oncebox.deliveries o WHERE o.handler = take.handler AND o.order_key IS NOT NULL
                     AND o.state IN ('ready', 'claimed', 'dead', 'held')) THEN
            places := ARRAY(SELECT oncebox.places_in_order(take.handler, take.most, wanted.on_dead, gen_random_uuid()));
        ELSE
            places := ARRAY(SELECT oncebox.places(take.handler, take.most));
        END IF;
    END IF;
    RETURN QUERY
    WITH sized AS MATERIALIZED (
        SELECT d.delivery, d.due_at_ms, d.key, octet_length(p.body) AS bytes, p.key IS NULL AS gone
        FROM oncebox.deliveries d LEFT JOIN oncebox.payloads p ON p.key = d.key
        WHERE d.ctid = ANY(places)
    ), summed AS (
        SELECT s.*, sum(s.bytes) OVER (ORDER BY s.due_at_ms, s.key) - s.bytes AS bytes_before FROM sized s
    ), chosen AS MATERIALIZED (
        SELECT s.delivery, s.gone FROM summed s WHERE coalesce(s.bytes_before, 0) < 8388608
    ), claimed AS (
        UPDATE oncebox.deliveries d
        SET state = CASE WHEN d.attempt - d.attempts_before >= wanted.attempts OR c.gone THEN 'dead' ELSE 'claimed' END,
            attempt = CASE WHEN d.attempt - d.attempts_before >= wanted.attempts THEN d.attempt ELSE d.attempt + 1 END,
            last_error = CASE WHEN d.attempt - d.attempts_before >= wanted.attempts
                              THEN coalesce(d.last_error, 'the attempts are used up')
                              WHEN c.gone THEN 'the payload is gone' ELSE d.last_error END,
            finished_at_ms = CASE WHEN d.attempt - d.attempts_before >= wanted.attempts OR c.gone THEN now_ms.at END,
            token = gen_random_uuid(), node = NULL, claimed_at_ms = now_ms.at,
            lease_until_ms = now_ms.steady + take.lease_ms
        FROM chosen c, (SELECT oncebox.now_ms() AS at, oncebox.steady_ms() AS steady) now_ms
        WHERE d.delivery = c.delivery AND d.delivery = ANY(ARRAY(SELECT c.delivery FROM chosen c))
        RETURNING d.delivery, d.token, d.key, d.state, d.attempt, d.due_at_ms, d.claimed_at_ms, d.lease_until_ms,
                  d.last_error, c.gone
    ), emptied AS (
        INSERT INTO oncebox.attempts (delivery, attempt, started_at_ms, ended_at_ms, outcome, error)
        SELECT c.delivery, c.attempt, c.claimed_at_ms, c.claimed_at_ms, 'dead', c.last_error FROM claimed c
        WHERE c.gone AND c.last_error = 'the payload is gone'
        ON CONFLICT ON CONSTRAINT attempts_pkey DO NOTHING
    )
    SELECT c.delivery, c.token, c.key::text, e.source, e.event_id, e.type, p.body, c.attempt::integer,
           to_timestamp(e.received_at_ms / 1000.0),
           to_timestamp((c.lease_until_ms - (SELECT s.offset_ms FROM oncebox.steady_clock s)) / 1000.0)
    FROM claimed c JOIN oncebox.events e ON e.key = c.key JOIN oncebox.payloads p ON p.key = c.key
    WHERE c.state = 'claimed' ORDER BY c.due_at_ms, c.key;
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
