-- Everybody who might read or write payloads waits from here on, for no longer than the drop takes.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = '{lock_ms}ms';
SET LOCAL statement_timeout = '{statement_ms}ms';
LOCK TABLE ONLY oncebox.payloads IN ACCESS EXCLUSIVE MODE;
ALTER TABLE oncebox.payloads DETACH PARTITION oncebox.{name}
