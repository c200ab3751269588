-- The last event that a slice of an action may look at; none where there are fewer.
SELECT key FROM oncebox.events WHERE key > $1 AND key <= $2 ORDER BY key LIMIT 1 OFFSET $3
