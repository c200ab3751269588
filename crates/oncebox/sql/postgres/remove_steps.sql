DELETE FROM oncebox.steps WHERE delivery = ANY($1)
