SELECT source, ledger_ms, payload_ms FROM oncebox.windows ORDER BY source
