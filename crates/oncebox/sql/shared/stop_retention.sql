-- The first reason stays: it is what a person has to look at.
UPDATE oncebox.retention SET stopped_at_ms = $1, stopped_why = $2 WHERE stopped_at_ms IS NULL
