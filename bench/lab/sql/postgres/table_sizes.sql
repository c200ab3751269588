-- A partitioned table and its partitions are one; TOAST counts as the table's own.
SELECT coalesce(parent.relname, c.relname)::text AS name, sum(pg_table_size(c.oid))::bigint, sum(pg_indexes_size(c.oid))::bigint
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class parent ON parent.oid = i.inhparent
WHERE c.relnamespace = to_regnamespace('oncebox') AND c.relkind IN ('r', 'p')
GROUP BY 1 ORDER BY 1
