SELECT name, version, checksum FROM oncebox_repeatables ORDER BY name
