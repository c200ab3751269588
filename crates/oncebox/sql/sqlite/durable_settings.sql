SELECT 'journal_mode', journal_mode, journal_mode IN ('off', 'memory') FROM pragma_journal_mode
UNION ALL SELECT 'synchronous', CAST(synchronous AS TEXT), synchronous < 2 FROM pragma_synchronous
