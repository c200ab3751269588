DELETE FROM oncebox_repeats WHERE key = ?1
