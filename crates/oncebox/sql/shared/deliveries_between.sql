-- The events between two keys that have a delivery of the handler.
SELECT key FROM oncebox.deliveries WHERE delivery BETWEEN $1 AND $2 AND handler = $3
