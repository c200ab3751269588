-- The pages that may hold them are found by the range; the keys then choose among their rows.
WITH aged AS MATERIALIZED (SELECT ctid AS place, key FROM oncebox.ledger WHERE key >= $1 AND key <= $2)
DELETE FROM oncebox.ledger WHERE ctid = ANY(ARRAY(SELECT place FROM aged WHERE key = ANY($3))) RETURNING key
