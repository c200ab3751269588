-- By source: what was counted, and what came since.
SELECT source, CAST(sum(rows) AS bigint) FROM (
    SELECT source, rows FROM oncebox.ledger_sizes
    UNION ALL
    SELECT source, count(*) FROM oncebox.events WHERE key >= (SELECT counted_to FROM oncebox.retention) GROUP BY source
) counted GROUP BY source ORDER BY source
