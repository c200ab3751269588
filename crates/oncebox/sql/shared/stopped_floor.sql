-- As deliveries_floor among dead or held ones, through the index that has only those.
SELECT delivery FROM oncebox.deliveries WHERE state = $3 AND state IN ('dead', 'held') AND delivery < $1
ORDER BY delivery DESC LIMIT 1 OFFSET $2
