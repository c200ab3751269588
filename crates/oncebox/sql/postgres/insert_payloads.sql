INSERT INTO oncebox.payloads (key, remote, headers, body)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bytea[])
