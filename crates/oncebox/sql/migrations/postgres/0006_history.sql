-- What was done stays to be seen: the audit log also holds who paused and resumed a handler, and an attempt that ended
-- in done is kept when its delivery runs again.
ALTER TABLE oncebox.actions
    DROP CONSTRAINT actions_kind_check,
    ADD CONSTRAINT actions_kind_check
        CHECK (kind IN ('replay', 'release', 'discard', 'forget', 'requeue', 'pause', 'resume'));
ALTER TABLE oncebox.attempts
    DROP CONSTRAINT attempts_outcome_check,
    ADD CONSTRAINT attempts_outcome_check
        CHECK (outcome IN ('failed', 'dead', 'superseded', 'held', 'lost', 'done'));
