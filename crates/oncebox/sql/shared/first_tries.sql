-- By handler: deliveries whose first attempt ended, and how many of those failed. A crash is a failure, too.
SELECT t.handler, count(*), coalesce(max(f.failed), 0)
FROM oncebox.deliveries t LEFT JOIN (
    SELECT d.handler, count(*) AS failed FROM oncebox.attempts a JOIN oncebox.deliveries d ON d.delivery = a.delivery
    WHERE a.attempt = 1 AND a.outcome NOT IN ('superseded', 'done') GROUP BY d.handler) f ON f.handler = t.handler
WHERE t.attempt > 1 OR (t.attempt = 1 AND t.state <> 'claimed')
GROUP BY t.handler ORDER BY t.handler
