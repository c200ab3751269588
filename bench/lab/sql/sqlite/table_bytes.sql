SELECT coalesce(sum(s.pgsize), 0)
FROM dbstat s JOIN sqlite_schema m ON m.name = s.name
WHERE s.aggregate = TRUE AND m.tbl_name = '{table}'
