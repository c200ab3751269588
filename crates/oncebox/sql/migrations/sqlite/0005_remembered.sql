-- What `once` remembers: a mark of scope and id. Its own namespace, apart from the gateway's ledger; the time is for
-- retention alone and no part of the key, so that nothing is new twice while its row lives.
CREATE TABLE oncebox_remembered (
    mark  BLOB NOT NULL PRIMARY KEY,
    at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_remembered_by_age ON oncebox_remembered (at_ms);
