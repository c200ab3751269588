SELECT current_setting('oncebox.failed')::text[]
