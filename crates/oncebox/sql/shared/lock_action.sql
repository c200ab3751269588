-- Writing the row locks it: the same action twice at once takes turns.
UPDATE oncebox.actions SET acted = acted WHERE action = $1
RETURNING kind, filter, acted, phase, reached, finished_at_ms
