-- A partitioned table and its partitions are one.
SELECT sum(pg_total_relation_size(c.oid))::bigint
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND '{table}'::regclass IN (c.oid, i.inhparent)
