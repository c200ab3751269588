-- The last event that one look, or one slice of an action, may examine; none where there are fewer.
SELECT key FROM oncebox.events WHERE key > $1 AND key <= $2 ORDER BY key LIMIT 1 OFFSET $3
