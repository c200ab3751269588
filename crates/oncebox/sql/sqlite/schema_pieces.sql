SELECT type, name, 0 FROM sqlite_schema WHERE name LIKE 'oncebox!_%' ESCAPE '!'
