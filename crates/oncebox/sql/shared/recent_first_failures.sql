-- Deliveries between two keys whose first attempt failed, by handler. A crash is a failure, too. The delivery tells it
-- by itself: attempts are removed before it, and a rate must not fall because of that. One that was done at first and
-- put back in line is none of them.
SELECT d.handler, count(*)
FROM oncebox.deliveries d
WHERE d.delivery >= $1 AND d.delivery < $2
  AND (d.attempt > 1 OR (d.attempt = 1 AND d.state IN ('ready', 'dead', 'held', 'discarded')))
  AND NOT EXISTS (SELECT 1 FROM oncebox.attempts a
                  WHERE a.delivery = d.delivery AND a.attempt = 1 AND a.outcome IN ('superseded', 'done'))
GROUP BY d.handler
