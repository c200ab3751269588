-- For as long as the session lives. The first number keeps clear of an application's own advisory locks.
SELECT pg_try_advisory_lock(1869505378, 0)
