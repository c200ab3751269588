-- By the database's own clock; on SQLite that is ours.
SELECT oncebox.now_ms($1)
