SELECT count(*) FROM oncebox.ledger
