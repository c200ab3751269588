DELETE FROM oncebox.outbox_answers WHERE id IN (SELECT c.id FROM oncebox.outbox_contents c WHERE c.key = $1)
