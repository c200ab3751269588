-- What a process has begun, written before it begins it: what else it has claimed was never begun, and a loss of that uses
-- no attempt. What its workers began alone, what they began together with others in a transaction, and what its relay sends:
-- 16 bytes for each, one behind the other, the last halves of the delivery's (or message's) id and of its token. A process
-- that has none of it is of an older version, and all its claims count.
ALTER TABLE oncebox_nodes ADD COLUMN begun_alone BLOB;
ALTER TABLE oncebox_nodes ADD COLUMN begun_together BLOB;
ALTER TABLE oncebox_nodes ADD COLUMN begun_relay BLOB;
