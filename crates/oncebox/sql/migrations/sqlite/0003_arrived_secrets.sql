-- Secrets that a vendor brings in a handshake. Armed by a person, taken once, kept encrypted with a key that is not here.
CREATE TABLE oncebox_arrived_secrets (
    source        TEXT NOT NULL PRIMARY KEY,
    armed         INTEGER NOT NULL CHECK (armed IN (0, 1)),
    sealed        BLOB,
    changed_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
