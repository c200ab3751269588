-- A conflict that a person decided about is an event of its own, known by its id and its body. Of two who decide, one does.
UPDATE oncebox.events
SET state = 'accepted', reason = $2, identity = CASE identity WHEN 'id' THEN 'id+body' ELSE identity END
WHERE key = $1 AND state = 'conflict'
