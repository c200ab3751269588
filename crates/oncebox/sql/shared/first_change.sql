-- The same delivery may come again: its first try may have failed after this.
INSERT INTO oncebox.changes AS c (mark, delivery, until_ms) VALUES ($1, $2, (SELECT oncebox.steady_ms($5, $3)) + $4)
ON CONFLICT (mark) DO UPDATE SET delivery = excluded.delivery, until_ms = excluded.until_ms
WHERE c.delivery = excluded.delivery OR c.until_ms <= (SELECT oncebox.steady_ms($5, $3))
