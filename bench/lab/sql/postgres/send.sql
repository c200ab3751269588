SELECT count(oncebox.send($1, $2::bytea)) FROM generate_series(1, $3::bigint)
