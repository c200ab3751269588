-- Every node does this; whoever comes second finds nothing. An attempt whose relay went silent counts, if it had begun.
WITH ended AS MATERIALIZED (
    SELECT m.id AS message, m.attempt - m.attempts_before AS used,
           coalesce((SELECT t.attempts FROM oncebox.destinations t WHERE t.destination = m.destination), 1000000) AS attempts,
           CASE WHEN EXISTS (SELECT 1 FROM oncebox.nodes b WHERE b.node = m.node
                               AND NOT /*postgres*/oncebox.lists(b.begun_relay, m.id, m.token)/*sqlite
                    (instr(b.begun_relay, CAST(substr(m.id, 9) || substr(m.token, 9) AS BLOB)) > 0)*/) THEN 1 ELSE 0 END AS unused
    FROM oncebox.outbox m
    WHERE m.state = 'claimed' AND m.lease_until_ms < (SELECT oncebox.sure_ms($4, $1))
    ORDER BY m.lease_until_ms LIMIT $2 /*postgres*/FOR UPDATE SKIP LOCKED/*sqlite*/
)
UPDATE oncebox.outbox AS m
SET state = CASE WHEN e.used - e.unused >= e.attempts THEN 'dead' ELSE 'ready' END,
    attempt = m.attempt - e.unused, due_at_ms = (SELECT oncebox.steady_ms($4, $1)),
    last_error = CASE WHEN e.unused = 0 THEN $3 ELSE $3 || '; no attempt was used' END
FROM ended e WHERE m.id = e.message AND m.state = 'claimed'
RETURNING id, destination, state, attempt, node, claimed_at_ms, last_error
