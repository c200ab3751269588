SELECT version, checksum, (SELECT coalesce(max(floor), 0) FROM oncebox.migration_floors) FROM oncebox.migrations ORDER BY version
