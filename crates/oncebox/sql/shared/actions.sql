-- Newest first, also within a millisecond: ids begin with the time. From $2 and $3 on where a page goes on.
SELECT action, kind, filter, who, counted, acted, started_at_ms, finished_at_ms FROM oncebox.actions
WHERE CAST($2 AS bigint) IS NULL OR started_at_ms < $2 OR (started_at_ms = $2 AND action < CAST($3 AS text))
ORDER BY started_at_ms DESC, action DESC LIMIT $1
