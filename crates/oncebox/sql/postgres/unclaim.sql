-- What a claim took and cannot carry, put back in the claim's own transaction, as if it had never been chosen.
UPDATE oncebox.deliveries SET state = 'ready', attempt = attempt - 1, lease_until_ms = NULL
WHERE delivery = ANY($1) AND token = ANY($2) AND state = 'claimed'
