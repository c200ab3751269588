SELECT e.source, e.state, count(*), coalesce(CAST(sum(a.count) AS bigint), 0)
FROM oncebox.events e LEFT JOIN oncebox.arrivals a ON a.key = e.key
GROUP BY e.source, e.state ORDER BY e.source, e.state
