-- Whether steps were ever recorded, and repeatable files.
SELECT to_regclass('oncebox.migrations') IS NOT NULL AND to_regclass('oncebox.migration_floors') IS NOT NULL,
       to_regclass('oncebox.repeatables') IS NOT NULL
