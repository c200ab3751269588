-- What an idle node asks: one read in place of a transaction.
SELECT 1 FROM oncebox.deliveries WHERE state = 'claimed' AND lease_until_ms < (SELECT oncebox.now_ms($1))
UNION ALL
SELECT 1 FROM oncebox.outbox WHERE state = 'claimed' AND lease_until_ms < (SELECT oncebox.now_ms($1))
LIMIT 1
