INSERT INTO oncebox_repeats (fingerprint, key) VALUES (?1, ?2) ON CONFLICT (fingerprint) DO NOTHING
