CREATE SCHEMA IF NOT EXISTS oncebox;
CREATE TABLE IF NOT EXISTS oncebox.migrations (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
