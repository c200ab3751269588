-- The audit log also holds erasures. Which kinds there are is the program's to say: a list here would have to be written
-- anew with every kind.
ALTER TABLE oncebox.actions DROP CONSTRAINT IF EXISTS actions_kind_check;
