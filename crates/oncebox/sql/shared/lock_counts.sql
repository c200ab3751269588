-- Writing the row locks it: two who count at once take turns.
UPDATE oncebox.retention SET one = one RETURNING counted_to
