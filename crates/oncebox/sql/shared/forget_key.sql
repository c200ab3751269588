-- For an id that was joined: its parts are not kept, so that its identity cannot be made anew.
DELETE FROM oncebox.ledger WHERE key = $1
