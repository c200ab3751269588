-- Whether steps were ever recorded, and repeatable files.
SELECT count(*) FILTER (WHERE name IN ('oncebox_migrations', 'oncebox_migration_floors')) = 2,
       count(*) FILTER (WHERE name = 'oncebox_repeatables') = 1
FROM sqlite_schema WHERE type = 'table'
