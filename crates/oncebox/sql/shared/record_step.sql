INSERT INTO oncebox.steps (delivery, step, result, at_ms) VALUES ($1, $2, $3, (SELECT oncebox.now_ms($4)))
