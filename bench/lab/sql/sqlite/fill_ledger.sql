INSERT INTO oncebox_ledger (identity, key) VALUES (?1, ?2)
