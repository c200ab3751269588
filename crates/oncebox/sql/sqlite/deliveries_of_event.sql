SELECT delivery FROM oncebox_deliveries WHERE delivery >= ?1 AND delivery <= ?2 AND key = ?3
