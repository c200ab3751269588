INSERT INTO oncebox.migrations (version, name, checksum) VALUES ($1, $2, $3)
