-- Nodes look by turns: the newest time stays, with the proof that came with it.
UPDATE oncebox.retention SET boot = $2, uptime_ms = $3, seen_at_ms = $1
WHERE seen_at_ms IS NULL OR seen_at_ms < $1
