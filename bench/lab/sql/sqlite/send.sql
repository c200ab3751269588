INSERT INTO oncebox_send (destination, body) VALUES (?1, ?2)
