-- Sessions of our own role show what they wait for.
SELECT 1::bigint FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'oncebox' AND wait_event = 'SyncRep' LIMIT 1
