UPDATE oncebox.outbox_attempts SET error = 'erased' WHERE error IS NOT NULL AND id IN (
    SELECT o.id FROM oncebox.outbox o WHERE o.key = $1)
