DELETE FROM oncebox.versions WHERE (handler, order_key) IN (
    SELECT handler, order_key FROM oncebox.versions WHERE applied_at_ms < $1 LIMIT $2)
