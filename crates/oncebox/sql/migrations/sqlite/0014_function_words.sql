-- A message knows the claim that wrote it: a claim that was given back was no attempt, so the attempt alone cannot tell
-- the next claim from it. And what SQL wants sent is refused in words before the table refuses it in its own.

ALTER TABLE oncebox_outbox ADD COLUMN delivery_token BLOB;

-- The time is the delivery's claim, which has the program's own clock; what belongs to no delivery is due at once.
DROP TRIGGER oncebox_send_write;
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
    -- What an older version wrote does not know its claim.
    SELECT RAISE(ABORT, 'oncebox: this step was sent already in this claim; name each step of a delivery differently')
    FROM oncebox_deliveries d JOIN oncebox_outbox o
        ON o.delivery = d.delivery AND o.destination = NEW.destination AND o.step = coalesce(NEW.step, 'send')
       AND coalesce(o.delivery_token = d.token, o.delivery_attempt = d.attempt)
    WHERE d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
      AND o.idempotency_key = lower(substr(hex(d.delivery), 1, 8) || '-' || substr(hex(d.delivery), 9, 4) || '-' ||
              substr(hex(d.delivery), 13, 4) || '-' || substr(hex(d.delivery), 17, 4) || '-' ||
              substr(hex(d.delivery), 21)) || '/' || NEW.destination || '/' || coalesce(NEW.step, 'send');
    INSERT INTO oncebox_outbox (id, destination, idempotency_key, path, method, headers, body, order_key, key, delivery,
                                handler, step, delivery_attempt, delivery_token, due_at_ms, created_at_ms)
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
           d.token, coalesce(d.claimed_at_ms, 0), now.ms
    FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS ms,
                 (SELECT coalesce(max(rowid), 0) + 1 FROM oncebox_outbox) AS row) now
    LEFT JOIN oncebox_deliveries d
        ON d.delivery = iif(typeof(NEW.delivery) = 'text', unhex(NEW.delivery, '-'), NEW.delivery)
    WHERE true
    ON CONFLICT (idempotency_key) DO NOTHING;
END;
