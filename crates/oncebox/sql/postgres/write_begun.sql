-- Not flushed: whoever dies after it is a process of ours, and the database lives. If it is the database, what was under way
-- counts as not begun.
WITH lazily AS (SELECT set_config('synchronous_commit', 'off', true))
UPDATE oncebox.nodes SET begun_alone = CASE WHEN $2 = 'alone' THEN $3 ELSE begun_alone END,
                         begun_together = CASE WHEN $2 = 'together' THEN $3 ELSE begun_together END,
                         begun_relay = CASE WHEN $2 = 'relay' THEN $3 ELSE begun_relay END
FROM lazily WHERE node = $1
