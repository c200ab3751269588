SELECT version, checksum FROM oncebox.migrations ORDER BY version
