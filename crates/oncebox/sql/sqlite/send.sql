-- The view that SQL handlers use, so that the rules for keys stand once.
INSERT INTO oncebox_send (destination, body, delivery, step, path, method, headers, key, order_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
