-- Reads every event: only for a name that the config does not know.
SELECT DISTINCT source FROM oncebox.events ORDER BY source
