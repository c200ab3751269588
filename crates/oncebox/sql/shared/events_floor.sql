-- The last of the events below $1 that one page may look at.
SELECT key FROM oncebox.events WHERE key < $1 ORDER BY key DESC LIMIT 1 OFFSET $2
