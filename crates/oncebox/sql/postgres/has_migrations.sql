SELECT to_regclass('oncebox.migrations') IS NOT NULL
