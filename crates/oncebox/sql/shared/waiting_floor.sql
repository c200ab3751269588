-- As events_floor among those in one state other than accepted, through the index that has only those.
SELECT key FROM oncebox.events WHERE state = $3 AND state <> 'accepted' AND key < $1 ORDER BY key DESC LIMIT 1 OFFSET $2
