-- By the hour for three days, then by the day.
DELETE FROM oncebox.ledger_history
WHERE at_ms < $1 AND (at_ms % 86400000 <> 0 OR at_ms < CAST($2 AS bigint))
