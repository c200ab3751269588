-- The event behind the next slice; none when there is less than a slice. Only one end of the range is asked for: between
-- two a database without statistics expects a handful, and would read and sort all of them.
SELECT key FROM oncebox.events WHERE key >= $1 ORDER BY key LIMIT 1 OFFSET $2
