INSERT INTO oncebox.repeats (fingerprint, key) SELECT * FROM unnest($1::uuid[], $2::uuid[])
WHERE current_setting('oncebox.begun', true) = 'yes'
ON CONFLICT (fingerprint) DO NOTHING RETURNING fingerprint
