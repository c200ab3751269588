-- Secrets that a vendor brings in a handshake. Armed by a person, taken once, kept encrypted with a key that is not here.
CREATE TABLE oncebox.arrived_secrets (
    source        text NOT NULL PRIMARY KEY,
    armed         bigint NOT NULL CHECK (armed IN (0, 1)),
    sealed        bytea,
    changed_at_ms bigint NOT NULL
);
