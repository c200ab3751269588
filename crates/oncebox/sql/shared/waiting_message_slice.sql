-- As message_action_slice, for messages that wait because nobody serves their destination.
UPDATE oncebox.outbox
SET state = CAST($7 AS text),
    attempts_before = CASE WHEN CAST($7 AS text) = 'ready' THEN attempt ELSE attempts_before END,
    due_at_ms = CASE WHEN CAST($7 AS text) = 'ready' THEN (SELECT oncebox.now_ms($8)) ELSE due_at_ms END
WHERE id IN (
    SELECT m.id FROM oncebox.outbox m
    WHERE m.id > $1 AND m.state = 'ready'
      AND (CAST($2 AS text) IS NULL OR m.destination = $2)
      AND (CAST($3 AS text) IS NULL OR m.handler = $3)
      AND (CAST($4 AS bigint) IS NULL OR m.created_at_ms >= $4)
      AND (CAST($5 AS bigint) IS NULL OR m.created_at_ms < $5)
      AND (CAST($6 AS uuid) IS NULL OR m.id = $6)
    ORDER BY m.id LIMIT $9 FOR UPDATE SKIP LOCKED)
RETURNING id
