-- Everything that a statement can leave behind in its session, as DISCARD ALL takes it away, except for the prepared
-- statements, which are ours. What we set for the session follows.
CLOSE ALL;
SET SESSION AUTHORIZATION DEFAULT;
RESET ALL;
UNLISTEN *;
SELECT pg_advisory_unlock_all();
DISCARD TEMP;
DISCARD SEQUENCES;
