SELECT coalesce(sum(pg_column_size(body) + pg_column_size(headers)), 0)::bigint FROM oncebox.payloads WHERE key = ANY($1)
