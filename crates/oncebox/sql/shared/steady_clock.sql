SELECT (SELECT oncebox.now_ms($1)), offset_ms, seen_ms, settled FROM oncebox.steady_clock
