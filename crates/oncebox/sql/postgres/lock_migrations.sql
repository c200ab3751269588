-- One node at a time: whoever comes second waits for as long as the first one takes. A step may take as long as its table is
-- large, but it never stands in the way of ingest for longer than this while it waits for a lock: it gives up and tries again.
SET LOCAL statement_timeout = 0;
LOCK TABLE oncebox.migrations IN SHARE ROW EXCLUSIVE MODE;
SET LOCAL lock_timeout = '3s'
