-- The last of the events above $1 that one look may examine.
SELECT key FROM oncebox.events WHERE key > $1 ORDER BY key LIMIT 1 OFFSET $2
