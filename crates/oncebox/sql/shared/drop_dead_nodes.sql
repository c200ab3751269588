DELETE FROM oncebox.nodes WHERE name = $1 AND node <> $2
