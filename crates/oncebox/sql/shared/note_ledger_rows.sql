INSERT INTO oncebox.ledger_history (at_ms, source, rows) VALUES ($1, $2, $3) ON CONFLICT (at_ms, source) DO NOTHING
