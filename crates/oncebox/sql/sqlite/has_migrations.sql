SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'oncebox_migrations'
