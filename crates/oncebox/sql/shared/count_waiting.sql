-- What of an event has not ended: deliveries and messages. $2 and $3 bound the keys of its deliveries.
SELECT (SELECT count(*) FROM oncebox.deliveries d WHERE d.key = $1 AND d.delivery BETWEEN $2 AND $3
          AND d.state IN ('ready', 'claimed', 'held', 'dead'))
     + (SELECT count(*) FROM oncebox.outbox_contents k JOIN oncebox.outbox o ON o.id = k.id
        WHERE k.key = $1 AND o.state IN ('ready', 'claimed', 'dead'))
