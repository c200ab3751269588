SELECT version FROM oncebox.versions WHERE handler = $1 AND order_key = $2
