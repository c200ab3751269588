SELECT name, version, checksum FROM oncebox.repeatables ORDER BY name
