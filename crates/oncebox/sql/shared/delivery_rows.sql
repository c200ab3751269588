SELECT count(*) FROM oncebox.deliveries
