-- Events that somebody still needs: a handler to run them, or a person to decide.
SELECT key FROM oncebox.deliveries
WHERE delivery >= $1 AND delivery <= $2 AND state IN ('ready', 'claimed', 'dead', 'held')
