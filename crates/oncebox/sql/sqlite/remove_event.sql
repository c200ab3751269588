DELETE FROM oncebox_events WHERE key = ?1
