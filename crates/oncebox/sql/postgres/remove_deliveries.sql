DELETE FROM oncebox.deliveries WHERE delivery >= $1 AND delivery <= $2 AND key = ANY($3) RETURNING delivery
