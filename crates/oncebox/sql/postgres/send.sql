-- The function that every language uses, so that the rules for keys stand once.
SELECT oncebox.send(CAST($1 AS text), CAST($2 AS bytea), CAST($3 AS uuid), CAST($4 AS text), CAST($5 AS text),
                    CAST($6 AS text), CAST(CAST($7 AS text) AS jsonb), CAST($8 AS text), CAST($9 AS text))
