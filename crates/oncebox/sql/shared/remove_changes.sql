DELETE FROM oncebox.changes WHERE mark IN (SELECT mark FROM oncebox.changes WHERE until_ms < $1 LIMIT $2)
