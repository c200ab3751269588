-- With the time and the longest memory: one question for a look that nothing follows.
SELECT seen_at_ms, boot, uptime_ms, stopped_at_ms, stopped_why, behind_ms, behind_at_ms, (SELECT oncebox.now_ms($1)),
       (SELECT max(ledger_ms) FROM oncebox.windows)
FROM oncebox.retention
