-- One that is done stays, however old: the next event of an old customer must not wait for what was done long ago.
DELETE FROM oncebox.prerequisites WHERE mark IN (
    SELECT p.mark FROM oncebox.prerequisites p
    WHERE p.touched_at_ms < $1 AND p.done_at_ms IS NULL
      AND NOT EXISTS (SELECT 1 FROM oncebox.deliveries d WHERE d.waits_for = p.mark AND d.waits_for IS NOT NULL AND d.state = 'ready')
    LIMIT $2)
