-- One slice of an action, in the order of the ids. A replay gives a fresh budget of attempts and keeps the key.
UPDATE oncebox.outbox
SET state = CAST($7 AS text),
    attempts_before = CASE WHEN CAST($7 AS text) = 'ready' THEN attempt ELSE attempts_before END,
    due_at_ms = CASE WHEN CAST($7 AS text) = 'ready' THEN (SELECT oncebox.steady_ms($10, $8)) ELSE due_at_ms END
WHERE id IN (
    SELECT m.id FROM oncebox.outbox m
    WHERE m.id > $1 AND m.id <= $6 AND {which}
      AND (CAST($3 AS text) IS NULL OR m.handler = $3)
      AND (CAST($4 AS bigint) IS NULL OR m.created_at_ms >= $4)
      AND (CAST($5 AS bigint) IS NULL OR m.created_at_ms < $5)
    ORDER BY m.id LIMIT $9 /*postgres*/FOR UPDATE/*sqlite*/)
RETURNING id
