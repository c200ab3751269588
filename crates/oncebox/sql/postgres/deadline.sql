-- Longer than any step of ours may take: what we gave up on must not run on for ever.
SET statement_timeout = '15s'
