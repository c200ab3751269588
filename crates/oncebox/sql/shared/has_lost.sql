SELECT 1 FROM oncebox.deliveries d
WHERE d.handler = $1 AND d.state = 'ready' AND d.lost > 0 AND d.due_at_ms <= (SELECT oncebox.sure_ms($3, $2)) LIMIT 1
