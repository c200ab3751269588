DELETE FROM oncebox.repeats WHERE fingerprint = $1 AND key = $2
