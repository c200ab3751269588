SELECT identity, key FROM oncebox.ledger WHERE identity = ANY($1)
