SELECT action, kind, filter, who, counted, acted, started_at_ms, finished_at_ms FROM oncebox.actions
ORDER BY started_at_ms DESC, action LIMIT $1
