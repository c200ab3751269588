INSERT INTO oncebox.node_counts (node, at_ms, counts) VALUES ($1, (SELECT oncebox.now_ms($2)), $3)
ON CONFLICT (node) DO UPDATE SET at_ms = excluded.at_ms, counts = excluded.counts
