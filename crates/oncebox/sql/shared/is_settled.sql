SELECT count(*) FROM oncebox.events WHERE key = $1 AND state <> 'conflict'
