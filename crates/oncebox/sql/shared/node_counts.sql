SELECT node, counts, (SELECT oncebox.now_ms($1)) - at_ms FROM oncebox.node_counts ORDER BY node
