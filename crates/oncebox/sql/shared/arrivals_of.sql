SELECT count, last_at_ms, recent FROM oncebox.arrivals WHERE key = $1
