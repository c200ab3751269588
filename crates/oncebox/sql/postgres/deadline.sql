-- Longer than any step of ours may take: what we gave up on must not run on for ever. A node that falls asleep inside a
-- transaction must not keep its rows from the others much longer than its lease.
SET default_transaction_isolation = 'read committed'; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '5s'
