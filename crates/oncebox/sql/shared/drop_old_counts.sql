-- Of processes that went away.
DELETE FROM oncebox.node_counts WHERE at_ms < (SELECT oncebox.now_ms($1)) - $2
