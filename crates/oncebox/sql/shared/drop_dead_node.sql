DELETE FROM oncebox.nodes WHERE node = $1
