INSERT INTO oncebox.arrived_secrets (source, armed, sealed, changed_at_ms) VALUES ($1, 1, NULL, $2)
ON CONFLICT (source) DO UPDATE SET armed = 1, changed_at_ms = $2
