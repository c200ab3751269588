-- A handler's statements for each event of a batch, in one message: sent one by one, most of their time goes into being
-- sent and answered. Chunks of events stand behind a savepoint each (that is what a block with an EXCEPTION is). Where
-- one fails, its chunk is undone and runs again without it; what may not be its own fault ends the whole batch.
-- The values of the events come as arrays, in settings of the transaction.
DO {quote}
#variable_conflict use_column
DECLARE
    oncebox_count CONSTANT integer := current_setting('oncebox.count');
    {arrays}
    oncebox_from integer := 1;
    oncebox_to integer;
    oncebox_size integer := {chunk};
    oncebox_n integer;
    oncebox_failed integer[] := '{}';
    oncebox_said text[] := '{}';
BEGIN
    WHILE oncebox_from <= oncebox_count LOOP
        oncebox_to := least(oncebox_from + oncebox_size - 1, oncebox_count);
        BEGIN
            FOR oncebox_nth IN oncebox_from..oncebox_to LOOP
                oncebox_n := oncebox_nth;
                CONTINUE WHEN oncebox_n = ANY(oncebox_failed);
                {statements}
            END LOOP;
            oncebox_from := oncebox_to + 1;
            oncebox_size := least(oncebox_size * 2, {chunk});
        EXCEPTION WHEN OTHERS THEN
            IF SQLSTATE IN ('40001', '40P01', '55P03', '25006') OR left(SQLSTATE, 2) IN ('08', '53', '57', '58') THEN
                RAISE;
            END IF;
            oncebox_failed := oncebox_failed || oncebox_n;
            oncebox_said := oncebox_said || ARRAY[oncebox_n::text, SQLSTATE, SQLERRM];
            -- Those before it are known to be good; whether those after it are must show.
            oncebox_size := greatest(oncebox_n - oncebox_from, 1);
        END;
    END LOOP;
    PERFORM set_config('oncebox.failed', oncebox_said::text, true);
END {quote}
