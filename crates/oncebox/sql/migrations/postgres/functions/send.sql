-- == send ==

CREATE OR REPLACE FUNCTION oncebox.check_message(destination text, body bytea, delivery uuid, step text, path text,
                                                 method text, headers jsonb, key text, order_key text)
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
    new_id uuid := oncebox.message_id();
    unique_key text;
    earlier record;
    now_ms bigint := oncebox.now_ms();
BEGIN
    PERFORM oncebox.check_message(destination, body, delivery, step, path, method, headers, key, order_key);
    SELECT d.key, d.handler, d.attempt, d.order_key, d.token INTO writer
    FROM oncebox.deliveries d WHERE d.delivery = send.delivery;
    IF delivery IS NOT NULL AND NOT FOUND THEN
        RAISE EXCEPTION 'oncebox: there is no delivery %', delivery USING ERRCODE = '22023';
    END IF;
    -- A key that begins with the time stands beside the latest ones in its index.
    unique_key := coalesce(delivery || '/' || destination || '/' || named, destination || '/' || send.key, new_id::text);
    INSERT INTO oncebox.outbox_contents (id, idempotency_key, path, method, headers, body, key, delivery, step,
                                         delivery_attempt, delivery_token)
    VALUES (new_id, unique_key, coalesce(send.path, ''), coalesce(upper(send.method), 'POST'),
            coalesce(send.headers, '{}')::text, send.body, writer.key, send.delivery, named, writer.attempt,
            writer.token)
    ON CONFLICT (idempotency_key) DO NOTHING;
    IF FOUND THEN
        INSERT INTO oncebox.outbox (id, destination, handler, order_key, size, due_at_ms, created_at_ms)
        VALUES (new_id, send.destination, writer.handler,
                coalesce(send.order_key, replace(writer.order_key::text, '-', ''), replace(writer.key::text, '-', '')),
                octet_length(send.body), oncebox.steady_ms(), now_ms);
        RETURN new_id;
    END IF;
    SELECT c.id, c.delivery_attempt, c.delivery_token INTO earlier
    FROM oncebox.outbox_contents c WHERE c.idempotency_key = unique_key;
    -- A delivery that was never claimed has no token.
    IF coalesce(earlier.delivery_token = writer.token, earlier.delivery_attempt = writer.attempt) THEN
        RAISE EXCEPTION 'oncebox: step % was sent to % already in this claim', named, destination
            USING ERRCODE = '23505', HINT = 'Name each step of a delivery differently.';
    END IF;
    PERFORM oncebox.confirm();
    RETURN earlier.id;
END $$;

-- The same for a body that is text, JSON above all: sent as UTF-8.
CREATE OR REPLACE FUNCTION oncebox.send(destination text, body text, delivery uuid DEFAULT NULL, step text DEFAULT NULL,
                                        path text DEFAULT NULL, method text DEFAULT NULL, headers jsonb DEFAULT NULL,
                                        key text DEFAULT NULL, order_key text DEFAULT NULL)
RETURNS uuid LANGUAGE sql SET search_path = pg_catalog, oncebox, pg_temp AS $$
    SELECT oncebox.send(destination, convert_to(body, 'UTF8'), delivery, step, path, method, headers, key, order_key)
$$;
