SELECT to_regclass('oncebox.migrations') IS NOT NULL AND to_regclass('oncebox.migration_floors') IS NOT NULL
