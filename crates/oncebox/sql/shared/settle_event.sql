-- A held event is settled when none of its deliveries is held any more. $2 and $3 bound the keys of its deliveries.
UPDATE oncebox.events SET state = 'accepted' WHERE key = $1 AND state = 'held'
  AND NOT EXISTS (SELECT 1 FROM oncebox.deliveries d
                  WHERE d.delivery BETWEEN $2 AND $3 AND d.key = $1 AND d.state = 'held')
