-- By source: what was counted, and what came since. $1 is how far it was counted a moment ago: without a value at hand a
-- database would plan to read every event.
SELECT source, CAST(sum(rows) AS bigint) FROM (
    SELECT source, rows FROM oncebox.ledger_sizes
    UNION ALL
    SELECT source, count(*) FROM oncebox.events WHERE key >= $1 AND key >= (SELECT counted_to FROM oncebox.retention)
    GROUP BY source
) counted GROUP BY source ORDER BY source
