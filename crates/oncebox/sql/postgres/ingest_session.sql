-- Shorter than our own patience with the referee's question: what waits for a lock says so, and silence is the link's.
-- Everything is found by its key, however few rows there were when a plan was made; and a plan serves every batch, because
-- making one takes longer than a small batch. A batch of large bodies stays in memory: by default what is beyond 4 MB goes
-- through a file, and a batch has 8 MiB of bodies at most.
SET lock_timeout = '4s'; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET work_mem = '32MB'
