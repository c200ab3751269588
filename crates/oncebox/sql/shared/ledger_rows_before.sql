-- The newest note that is a day old; none where nobody looked then.
SELECT CAST(sum(rows) AS bigint) FROM oncebox.ledger_history
WHERE at_ms = (SELECT max(at_ms) FROM oncebox.ledger_history WHERE at_ms <= $1 AND at_ms > CAST($2 AS bigint))
