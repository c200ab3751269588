DELETE FROM oncebox_deliveries WHERE delivery = ?1
