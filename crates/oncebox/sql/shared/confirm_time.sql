UPDATE oncebox.retention SET stopped_at_ms = NULL, stopped_why = NULL, seen_at_ms = NULL, boot = NULL, uptime_ms = NULL
WHERE stopped_at_ms IS NOT NULL
