SELECT fingerprint, key FROM oncebox.repeats WHERE fingerprint = ANY($1)
