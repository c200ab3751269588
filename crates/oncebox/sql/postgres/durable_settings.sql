-- Each with whether it breaks the promise that an acknowledged event survives a crash.
SELECT s.name, s.setting, s.setting = 'off' FROM pg_settings s
WHERE s.name IN ('fsync', 'full_page_writes', 'synchronous_commit') ORDER BY s.name
