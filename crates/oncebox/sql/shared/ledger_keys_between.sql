SELECT key FROM oncebox.ledger WHERE key >= $1 AND key <= $2
