-- Attempts whose worker went silent, until one ends in words: such a delivery may be what took the worker with it, so it
-- is tried apart from the others.
ALTER TABLE oncebox_deliveries ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
CREATE INDEX oncebox_deliveries_lost ON oncebox_deliveries (handler, due_at_ms) WHERE state = 'ready' AND lost > 0;
