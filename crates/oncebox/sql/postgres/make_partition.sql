-- The check is what the partition's own bounds say, so that attaching it reads nothing of it. What is read under the lock
-- is the partition of the rest, which is why it has to be small.
BEGIN;
SET LOCAL lock_timeout = '{lock_ms}ms';
SET LOCAL statement_timeout = '{statement_ms}ms';
CREATE TABLE oncebox.{name} (LIKE oncebox.payloads INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE,
    CONSTRAINT {name}_pkey PRIMARY KEY (key), CONSTRAINT {name}_range CHECK (key >= '{from}' AND key < '{to}'));
ALTER TABLE oncebox.payloads ATTACH PARTITION oncebox.{name} FOR VALUES FROM ('{from}') TO ('{to}');
ALTER TABLE oncebox.{name} DROP CONSTRAINT {name}_range;
COMMIT
