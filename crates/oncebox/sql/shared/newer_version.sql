-- The row's lock makes two workers of one object take turns; whoever comes second judges by what the first applied.
INSERT INTO oncebox.versions AS v (handler, order_key, version, applied_at_ms)
VALUES ($1, $2, $3, (SELECT oncebox.now_ms($4)))
ON CONFLICT (handler, order_key) DO UPDATE SET version = excluded.version, applied_at_ms = excluded.applied_at_ms
WHERE v.version < excluded.version OR (v.version = excluded.version AND CAST($5 AS bigint) = 1)
