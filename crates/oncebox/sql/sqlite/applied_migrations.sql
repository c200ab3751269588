SELECT version, checksum, (SELECT coalesce(max(floor), 0) FROM oncebox_migration_floors) FROM oncebox_migrations ORDER BY version
