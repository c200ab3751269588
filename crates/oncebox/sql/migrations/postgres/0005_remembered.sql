-- What `once` remembers: a mark of scope and id. Its own namespace, apart from the gateway's ledger; the time is for
-- retention alone and no part of the key, so that nothing is new twice while its row lives.
CREATE TABLE oncebox.remembered (
    mark  uuid PRIMARY KEY,
    at_ms bigint NOT NULL
);
CREATE INDEX remembered_by_age ON oncebox.remembered (at_ms);
