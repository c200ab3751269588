DELETE FROM oncebox.remembered WHERE mark IN (
    SELECT mark FROM oncebox.remembered WHERE at_ms < $1 ORDER BY at_ms LIMIT $2)
