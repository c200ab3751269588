SELECT version, checksum FROM oncebox_migrations ORDER BY version
