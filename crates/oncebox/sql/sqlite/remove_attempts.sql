DELETE FROM oncebox_attempts WHERE delivery = ?1
