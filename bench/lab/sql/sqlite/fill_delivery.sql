INSERT INTO oncebox_deliveries
    (delivery, key, handler, state, attempt, due_at_ms, token, lease_until_ms, claimed_at_ms, finished_at_ms)
VALUES (?1, ?2, ?3, 'done', 1, ?4, ?5, ?4 + 60000, ?4, ?4)
