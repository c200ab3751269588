UPDATE oncebox.arrived_secrets SET armed = 0, changed_at_ms = $2 WHERE source = $1 AND armed = 1
