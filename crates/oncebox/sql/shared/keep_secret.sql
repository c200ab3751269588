UPDATE oncebox.arrived_secrets SET armed = 0, sealed = $2, changed_at_ms = $3
WHERE source = $1 AND armed = 1 AND changed_at_ms > $4
