-- The sources of the newest $1 events: only for a name that the config does not know.
SELECT DISTINCT source FROM (SELECT source FROM oncebox.events WHERE key < $2 ORDER BY key DESC LIMIT $1) newest
ORDER BY source
