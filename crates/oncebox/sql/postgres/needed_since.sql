-- Events of a partition that came to be needed since its payloads were looked at: by due time, by claim, by stop. Each
-- part has an index of its own, so that this is quick however many deliveries there are.
SELECT d.key FROM oncebox.handlers h JOIN oncebox.deliveries d ON d.handler = h.handler
WHERE d.state = 'ready' AND d.due_at_ms >= $3 + (SELECT c.offset_ms FROM oncebox.steady_clock c) AND d.key >= $1 AND d.key < $2
UNION
SELECT key FROM oncebox.deliveries WHERE state = 'claimed' AND key >= $1 AND key < $2
UNION
SELECT key FROM oncebox.deliveries WHERE state IN ('dead', 'held') AND delivery >= $1 AND delivery < $2
UNION
SELECT key FROM oncebox.events WHERE state = 'held' AND key >= $1 AND key < $2
