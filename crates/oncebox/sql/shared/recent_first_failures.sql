-- Deliveries between two keys whose first attempt failed, by handler. A crash is a failure, too.
SELECT d.handler, count(*)
FROM oncebox.attempts a JOIN oncebox.deliveries d ON d.delivery = a.delivery AND d.delivery >= $1 AND d.delivery < $2
WHERE a.delivery >= $1 AND a.delivery < $2 AND a.attempt = 1 AND a.outcome NOT IN ('superseded', 'done')
GROUP BY d.handler
