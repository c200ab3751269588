SELECT 1::bigint WHERE current_setting('oncebox.tx', true) = 'open'
