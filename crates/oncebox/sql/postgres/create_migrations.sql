-- migration_floors: written by a migration that older programs cannot live with; the floor is the newest migration that
-- a program must know at least.
-- repeatables: the files that are run again whenever their text changes. version: of the text; the higher one wins.
CREATE SCHEMA IF NOT EXISTS oncebox;
CREATE TABLE IF NOT EXISTS oncebox.migrations (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS oncebox.migration_floors (
    version bigint PRIMARY KEY,
    floor   bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS oncebox.repeatables (
    name       text PRIMARY KEY,
    version    bigint NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
