-- By source: how many there are, and how many of them nobody had counted yet; of those at most $2 are looked at. $1 is how
-- far it was counted a moment ago: without a value at hand a database would plan to read every event.
SELECT source, CAST(sum(rows) AS bigint), CAST(sum(uncounted) AS bigint) FROM (
    SELECT source, rows, 0 AS uncounted FROM oncebox.ledger_sizes
    UNION ALL
    SELECT source, count(*), count(*) FROM (
        SELECT source FROM oncebox.events WHERE key >= $1 AND key >= (SELECT counted_to FROM oncebox.retention)
        ORDER BY key LIMIT $2
    ) came GROUP BY source
) counted GROUP BY source ORDER BY source
