-- True where a standby must confirm the commit.
SELECT oncebox.confirm() AND current_setting('synchronous_standby_names') <> ''
