-- Writes something, so that the commit waits for whoever must confirm commits: what was committed before is confirmed with it.
SELECT pg_logical_emit_message(true, 'oncebox', '')
