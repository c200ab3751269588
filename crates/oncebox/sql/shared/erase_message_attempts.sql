UPDATE oncebox.outbox_attempts SET error = 'erased' WHERE error IS NOT NULL AND id IN (
    SELECT c.id FROM oncebox.outbox_contents c WHERE c.key = $1)
