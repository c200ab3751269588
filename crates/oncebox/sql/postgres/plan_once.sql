-- Planning our larger statements takes longer than running them. One plan serves all: they name their rows by key or by
-- place, whatever the statistics say.
SET LOCAL plan_cache_mode = force_generic_plan
