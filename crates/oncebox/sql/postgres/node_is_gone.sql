-- True where no session holds the lock of a process: taken and given back.
SELECT CASE WHEN pg_try_advisory_lock(1869505378, hashtext($1)) THEN pg_advisory_unlock(1869505378, hashtext($1))
            ELSE false END
