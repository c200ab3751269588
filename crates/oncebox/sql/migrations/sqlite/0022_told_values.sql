-- The number that was last told: one that has doubled since is told again.
ALTER TABLE oncebox_alerts ADD COLUMN told_value INTEGER;
