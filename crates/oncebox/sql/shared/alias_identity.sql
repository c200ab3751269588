-- With `repeated_body = "duplicate"` a new id with known bytes is another name of the event that had them first.
UPDATE oncebox.ledger SET key = $2 WHERE identity = $1
