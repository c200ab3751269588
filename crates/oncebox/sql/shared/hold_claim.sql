-- Locks the delivery while the token is the current one: nobody can claim it before this transaction ends.
UPDATE oncebox.deliveries SET token = token WHERE delivery = $1 AND token = $2 AND state = 'claimed'
