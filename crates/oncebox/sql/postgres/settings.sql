SELECT current_setting('server_version_num')::int, current_setting('server_version'),
       current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only'), pg_backend_pid()
