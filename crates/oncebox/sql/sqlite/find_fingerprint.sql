SELECT key FROM oncebox_repeats WHERE fingerprint = ?1
