UPDATE oncebox.attempts SET error = 'erased' WHERE error IS NOT NULL AND delivery IN (
    SELECT d.delivery FROM oncebox.deliveries d WHERE d.key = $1 AND d.delivery BETWEEN $2 AND $3)
