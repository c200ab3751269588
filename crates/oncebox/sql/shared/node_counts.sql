SELECT node, counts FROM oncebox.node_counts ORDER BY node
