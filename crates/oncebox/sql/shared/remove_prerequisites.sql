-- One that somebody waits for stays.
DELETE FROM oncebox.prerequisites WHERE mark IN (
    SELECT p.mark FROM oncebox.prerequisites p
    WHERE p.touched_at_ms < $1 AND coalesce(p.done_at_ms, 0) < $1
      AND NOT EXISTS (SELECT 1 FROM oncebox.deliveries d WHERE d.waits_for = p.mark AND d.waits_for IS NOT NULL AND d.state = 'ready')
    LIMIT $2)
