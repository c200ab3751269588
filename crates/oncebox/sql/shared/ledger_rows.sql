-- By source, which only the event knows. Reads both tables whole: ask seldom.
SELECT e.source, count(*) FROM oncebox.ledger l JOIN oncebox.events e ON e.key = l.key GROUP BY e.source ORDER BY e.source
