SELECT node, name, began_ms FROM oncebox.nodes WHERE node <> $1
