-- A process that was not seen for so long has no claim either: leases end.
DELETE FROM oncebox.nodes WHERE node IN (SELECT node FROM oncebox.nodes WHERE seen_at_ms < $1 LIMIT $2)
