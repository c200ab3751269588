DELETE FROM oncebox.outbox_answers WHERE id IN (SELECT o.id FROM oncebox.outbox o WHERE o.key = $1)
