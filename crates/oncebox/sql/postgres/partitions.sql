SELECT c.relname::text, pg_get_expr(c.relpartbound, c.oid), pg_table_size(c.oid)
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'oncebox.payloads'::regclass ORDER BY c.relname
