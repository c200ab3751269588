INSERT INTO oncebox.windows (source, ledger_ms, payload_ms) VALUES ($1, $2, $3)
ON CONFLICT (source) DO UPDATE SET ledger_ms = excluded.ledger_ms, payload_ms = excluded.payload_ms
