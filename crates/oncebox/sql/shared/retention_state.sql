SELECT seen_at_ms, boot, uptime_ms, stopped_at_ms, stopped_why, behind_ms, behind_at_ms, counted_to FROM oncebox.retention
