-- The claims of a process that is proved dead.
-- What was claimed and not begun uses no attempt. What had begun together with others uses one, but not its last: one of
-- them may have taken the process with it, and the others must not die of that; the last one is made alone.
WITH ended AS MATERIALIZED (
    SELECT d.delivery AS id, d.attempt - d.attempts_before AS used,
           coalesce((SELECT h.attempts FROM oncebox.handlers h WHERE h.handler = d.handler), 1000000) AS attempts,
           CASE WHEN NOT EXISTS (SELECT 1 FROM oncebox.nodes b WHERE b.node = d.node AND b.begun_alone IS NOT NULL) THEN 'alone'
                WHEN EXISTS (SELECT 1 FROM oncebox.nodes b WHERE b.node = d.node
                               AND /*postgres*/oncebox.lists(b.begun_alone, d.delivery, d.token)/*sqlite
                    (instr(b.begun_alone, CAST(substr(d.delivery, 9) || substr(d.token, 9) AS BLOB)) > 0)*/) THEN 'alone'
                WHEN EXISTS (SELECT 1 FROM oncebox.nodes b WHERE b.node = d.node
                               AND /*postgres*/oncebox.lists(b.begun_together, d.delivery, d.token)/*sqlite
                    (instr(b.begun_together, CAST(substr(d.delivery, 9) || substr(d.token, 9) AS BLOB)) > 0)*/) THEN 'together'
                ELSE 'not' END AS begun
    FROM oncebox.deliveries d
    WHERE d.state = 'claimed'
      AND d.node = $4
    ORDER BY d.lease_until_ms LIMIT $2 /*postgres*/FOR UPDATE SKIP LOCKED/*sqlite*/
), judged AS MATERIALIZED (
    SELECT id, used, attempts, CASE WHEN begun = 'not' THEN 0 ELSE 1 END AS suspect,
           CASE WHEN begun = 'not' OR (begun = 'together' AND used >= attempts) THEN 1 ELSE 0 END AS unused
    FROM ended
)
UPDATE oncebox.deliveries AS d
SET state = CASE WHEN j.used - j.unused >= j.attempts THEN 'dead' ELSE 'ready' END,
    finished_at_ms = CASE WHEN j.used - j.unused >= j.attempts THEN (SELECT oncebox.now_ms($1)) END,
    attempt = d.attempt - j.unused, due_at_ms = (SELECT oncebox.steady_ms($5, $1)), lost = d.lost + j.suspect,
    last_error = CASE WHEN j.unused = 0 THEN $3 ELSE $3 || '; no attempt was used' END
FROM judged j WHERE d.delivery = j.id AND d.state = 'claimed'
RETURNING delivery, key, handler, state, attempt, node, claimed_at_ms,
          -- SQLite knows the row here by no other name than its columns' own.
          (SELECT x.source FROM (SELECT e.key AS event, e.source FROM oncebox.events e) x WHERE x.event = key),
          (SELECT x.event_id FROM (SELECT e.key AS event, e.event_id FROM oncebox.events e) x WHERE x.event = key),
          last_error
