-- migration_floors: written by a migration that older programs cannot live with; the floor is the newest migration that
-- a program must know at least.
-- repeatables: the files that are run again whenever their text changes. version: of the text; the higher one wins.
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
CREATE TABLE IF NOT EXISTS oncebox_repeatables (
    name       TEXT NOT NULL PRIMARY KEY,
    version    INTEGER NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT, WITHOUT ROWID;
