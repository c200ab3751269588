SELECT receiver, condition, since_ms, told_at_ms, told_value FROM oncebox.alerts ORDER BY receiver, condition
