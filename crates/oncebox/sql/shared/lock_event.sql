-- Whoever settles the event comes one after the other, and sees what the one before did to its deliveries.
SELECT key FROM oncebox.events WHERE key = $1 /*postgres*/FOR UPDATE/*sqlite*/
