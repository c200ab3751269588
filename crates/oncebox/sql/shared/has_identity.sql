SELECT count(*) FROM oncebox.ledger WHERE identity = $1 AND key = $2
