-- For the questions of people: each follows an index to the rows it shows, whatever the planner guesses. Right after a
-- table was filled it knows nothing of it and reads it whole, or hashes all of it for a hundred rows. A scan that is
-- ruled out counts as dear, and what is dear would be compiled first, which takes longer than the answer.
SET jit = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off
