-- The last of the deliveries below $1 that one page may look at.
SELECT delivery FROM oncebox.deliveries WHERE delivery < $1 ORDER BY delivery DESC LIMIT 1 OFFSET $2
