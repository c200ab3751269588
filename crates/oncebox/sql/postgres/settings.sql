SELECT current_setting('server_version_num')::int, current_setting('server_version'),
       current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only'), pg_backend_pid(),
       current_setting('synchronous_standby_names'), EXISTS (SELECT FROM pg_stat_replication),
       -- Where Neon's log is flushed by servers of its own, fsync is off by design.
       current_setting('neon.timeline_id', true) <> '' AND current_setting('synchronous_standby_names') = 'walproposer'
