-- For statements that move a few hundred rows of a table of any size: each row by its index, whatever the planner guesses.
-- Without statistics it reads the table whole, or compares each row of a batch with all the others. One plan serves all of
-- them; making a new one takes longer than running it.
SET LOCAL plan_cache_mode = force_generic_plan;
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off
