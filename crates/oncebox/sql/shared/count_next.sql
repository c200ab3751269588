-- Where the next slice of uncounted events ends; none when there is less than a slice.
SELECT key FROM oncebox.events WHERE key >= $1 AND key < $2 ORDER BY key LIMIT 1 OFFSET $3
