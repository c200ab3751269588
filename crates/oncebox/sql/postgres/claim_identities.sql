-- The referee. Rows come sorted, so that two nodes never wait for each other in a circle. BEGIN travels with this
-- statement; had it failed alone, this would commit by itself, so nothing is inserted without its mark.
INSERT INTO oncebox.ledger (identity, key) SELECT * FROM unnest($1::uuid[], $2::uuid[])
WHERE current_setting('oncebox.begun', true) = 'yes'
ON CONFLICT (identity) DO NOTHING RETURNING identity
