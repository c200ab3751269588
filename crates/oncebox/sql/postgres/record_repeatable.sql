INSERT INTO oncebox.repeatables (name, version, checksum) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, checksum = excluded.checksum, applied_at = excluded.applied_at
