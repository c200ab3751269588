-- Shorter than our own patience with the referee's question: what waits for a lock says so, and silence is the link's.
SET lock_timeout = '4s'
