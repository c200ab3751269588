SELECT receiver, condition, since_ms, told_at_ms FROM oncebox.alerts ORDER BY receiver, condition
