UPDATE oncebox_outbox
SET state = ?2, attempt = ?3, token = ?4, node = ?5, claimed_at_ms = ?6, lease_until_ms = ?8 + ?7,
    last_error = iif(?2 = 'dead' AND last_error IS NULL, 'the attempts are used up', last_error)
WHERE id = ?1
