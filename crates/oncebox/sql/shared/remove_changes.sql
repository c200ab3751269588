DELETE FROM oncebox.changes WHERE mark IN (
    SELECT mark FROM oncebox.changes WHERE until_ms < $1 + (SELECT c.offset_ms FROM oncebox.steady_clock c) LIMIT $2)
