COPY oncebox.ledger (identity, key) FROM STDIN (FORMAT binary)
