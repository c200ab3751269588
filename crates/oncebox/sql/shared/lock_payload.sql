-- Whoever makes an event run again holds its payload until the end of the transaction, so that retention cannot take it.
SELECT key FROM oncebox.payloads WHERE key = $1 /*postgres*/FOR KEY SHARE/*sqlite*/
