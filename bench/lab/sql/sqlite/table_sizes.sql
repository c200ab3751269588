SELECT substr(m.tbl_name, 9) AS name, coalesce(sum(s.pgsize) FILTER (WHERE m.type = 'table'), 0),
       coalesce(sum(s.pgsize) FILTER (WHERE m.type = 'index'), 0)
FROM dbstat s JOIN sqlite_schema m ON m.name = s.name
WHERE s.aggregate = TRUE AND m.tbl_name LIKE 'oncebox!_%' ESCAPE '!'
GROUP BY 1 ORDER BY 1
