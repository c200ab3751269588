DELETE FROM oncebox_steps WHERE delivery = ?1
