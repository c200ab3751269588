SELECT source, armed, coalesce(sealed, $1), changed_at_ms FROM oncebox.arrived_secrets ORDER BY source
