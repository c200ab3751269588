INSERT INTO oncebox.repeats (fingerprint, key) SELECT * FROM unnest($1::uuid[], $2::uuid[])
ON CONFLICT (fingerprint) DO NOTHING RETURNING fingerprint
