SELECT source, count(*) FROM oncebox.events WHERE key >= $1 AND key < $2 GROUP BY source
