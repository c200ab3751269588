SELECT count(*) FROM oncebox.events
