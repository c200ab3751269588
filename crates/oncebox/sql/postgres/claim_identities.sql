-- The referee. Rows come sorted, so that two nodes never wait for each other in a circle.
INSERT INTO oncebox.ledger (identity, key) SELECT * FROM unnest($1::uuid[], $2::uuid[])
ON CONFLICT (identity) DO NOTHING RETURNING identity
