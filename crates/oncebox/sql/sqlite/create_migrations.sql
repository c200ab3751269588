-- migration_floors: written by a migration that older programs cannot live with; the floor is the newest migration that
-- a program must know at least.
CREATE TABLE IF NOT EXISTS oncebox_migrations (
    version    INTEGER NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE TABLE IF NOT EXISTS oncebox_migration_floors (
    version INTEGER NOT NULL PRIMARY KEY,
    floor   INTEGER NOT NULL
) STRICT;
