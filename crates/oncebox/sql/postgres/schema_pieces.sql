-- What is there: its kind, its name, and whether it cannot be used.
SELECT CASE WHEN c.relkind IN ('r', 'p') THEN 'table' WHEN c.relkind = 'v' THEN 'view' ELSE 'index' END AS kind,
       c.relname::text, NOT coalesce(i.indisvalid, true)
FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE c.relnamespace = to_regnamespace('oncebox') AND c.relkind IN ('r', 'p', 'v', 'i', 'I')
UNION ALL
SELECT DISTINCT 'function', p.proname::text, false FROM pg_proc p WHERE p.pronamespace = to_regnamespace('oncebox')
