INSERT INTO oncebox.nodes (node, name, started_at_ms, seen_at_ms, began_ms, steady_ms)
VALUES ($1, $2, (SELECT oncebox.now_ms($3)), (SELECT oncebox.now_ms($3)), (SELECT oncebox.steady_ms($4, $3)),
        (SELECT oncebox.steady_ms($4, $3)))
ON CONFLICT (node) DO UPDATE SET seen_at_ms = excluded.seen_at_ms, steady_ms = excluded.steady_ms
