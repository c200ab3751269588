UPDATE oncebox.steady_clock SET seen_ms = $1 WHERE seen_ms < $1
