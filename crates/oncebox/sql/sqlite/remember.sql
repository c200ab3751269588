-- For applications that have no clock to hand in; the time is for retention alone.
INSERT INTO oncebox_remembered (mark, at_ms) VALUES (?1, coalesce(?2, CAST(unixepoch('subsec') * 1000 AS INTEGER)))
ON CONFLICT (mark) DO NOTHING
