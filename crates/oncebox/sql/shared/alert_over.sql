DELETE FROM oncebox.alerts WHERE receiver = $1 AND condition = $2
