SELECT action, kind, filter, who, counted, acted, started_at_ms, finished_at_ms FROM oncebox.actions WHERE action = $1
