SELECT state FROM oncebox.outbox WHERE id = $1 AND token = $2
