SELECT key FROM oncebox_ledger WHERE identity = ?1
