INSERT INTO oncebox.ledger_sizes (source, rows) VALUES ($1, $2)
ON CONFLICT (source) DO UPDATE SET rows = oncebox.ledger_sizes.rows + excluded.rows
