-- What an idle node asks, for deliveries and messages: one read in place of two transactions.
SELECT 1 FROM oncebox.deliveries WHERE state = 'claimed' AND lease_until_ms < (SELECT oncebox.sure_ms($2, $1))
UNION ALL
SELECT 1 FROM oncebox.outbox WHERE state = 'claimed' AND lease_until_ms < (SELECT oncebox.sure_ms($2, $1)) LIMIT 1
