DELETE FROM oncebox.steps WHERE delivery IN (
    SELECT d.delivery FROM oncebox.deliveries d WHERE d.key = $1 AND d.delivery BETWEEN $2 AND $3)
