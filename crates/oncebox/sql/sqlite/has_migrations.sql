SELECT count(*) = 2 FROM sqlite_schema WHERE type = 'table' AND name IN ('oncebox_migrations', 'oncebox_migration_floors')
