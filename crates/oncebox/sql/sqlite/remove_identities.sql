DELETE FROM oncebox_ledger WHERE key = ?1
