DELETE FROM oncebox_payloads WHERE key = ?1
