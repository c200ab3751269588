SELECT count(*) FROM oncebox.ledger WHERE key = $1
