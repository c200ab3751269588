-- The value that was looked at when the session began stays its value: a setting that is turned off later, for everybody,
-- must not reach a session that acknowledges. A handler's statements may have changed it, too.
SELECT set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
                  false)
