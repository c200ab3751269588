-- By delivery, once each; a delivery that is gone leaves nothing behind.
SELECT a.delivery, e.key, e.source, d.state FROM (
    SELECT DISTINCT delivery FROM oncebox.steps WHERE delivery > $1 AND delivery < $2 ORDER BY delivery LIMIT $3
) a LEFT JOIN oncebox.deliveries d ON d.delivery = a.delivery LEFT JOIN oncebox.events e ON e.key = d.key
ORDER BY a.delivery
