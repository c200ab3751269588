-- $4 holds the newest arrivals first, a line each; the tail that no longer fits is cut, and its torn last line is
-- dropped when read.
INSERT INTO oncebox.arrivals AS arrivals (key, count, last_at_ms, recent)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[])
ON CONFLICT (key) DO UPDATE SET
    count = arrivals.count + excluded.count,
    last_at_ms = CASE WHEN excluded.last_at_ms > arrivals.last_at_ms THEN excluded.last_at_ms
                      ELSE arrivals.last_at_ms END,
    recent = substr(excluded.recent || arrivals.recent, 1, 512)
