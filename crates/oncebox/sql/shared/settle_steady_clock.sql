-- Once for each jump, whoever comes first. Where the time went on for another process that was there before, no clock
-- jumped: we were paused. $5 is the latest that such a process can have written down otherwise.
UPDATE oncebox.steady_clock SET offset_ms = offset_ms - $1, settled = settled + 1
WHERE settled = $2 AND NOT EXISTS (
    SELECT 1 FROM oncebox.nodes n WHERE n.node <> $3 AND n.began_ms <= $4 AND n.steady_ms > $5)
