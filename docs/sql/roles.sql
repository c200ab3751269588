-- Three roles with no more than they need. Run it once as the owner of the schema `oncebox` (or a superuser), after
-- `oncebox migrate`, and again after an upgrade; then grant the roles to the users of your applications:
--
--     grant oncebox_consumer to my_app;
--     grant oncebox_gateway to oncebox_server;      -- where the server's user is not the owner of the schema
--
-- The functions run with the caller's own rights, so the consumer's are exactly what claim, finish, fail, extend,
-- give_back, once, newer and send touch. It cannot make, change or delete an event, a payload or a setting.

-- Roles belong to the whole server, so another database may have them already, or make them at this moment.
DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['oncebox_consumer', 'oncebox_reader', 'oncebox_gateway'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA oncebox TO oncebox_consumer, oncebox_reader, oncebox_gateway;

-- Calling is allowed to everybody who may look into the schema; what counts is what a caller may touch.
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA oncebox TO oncebox_consumer;

-- What is claimed, and the event that goes with it.
GRANT SELECT ON oncebox.handlers, oncebox.deliveries, oncebox.events, oncebox.payloads TO oncebox_consumer;
GRANT SELECT (node, begun_alone, begun_together) ON oncebox.nodes TO oncebox_consumer;
GRANT UPDATE (state, attempt, due_at_ms, token, lease_until_ms, finished_at_ms, last_error, node, claimed_at_ms, lost)
    ON oncebox.deliveries TO oncebox_consumer;
GRANT SELECT (delivery, attempt, ended_at_ms, outcome, error), INSERT, UPDATE (ended_at_ms, outcome, status, error)
    ON oncebox.attempts TO oncebox_consumer;

-- once, newer, send.
GRANT SELECT (mark), INSERT ON oncebox.remembered TO oncebox_consumer;
GRANT SELECT, INSERT, UPDATE (version, applied_at_ms) ON oncebox.versions TO oncebox_consumer;
GRANT INSERT ON oncebox.outbox TO oncebox_consumer;
GRANT SELECT (id, idempotency_key, delivery_attempt, delivery_token), INSERT ON oncebox.outbox_contents TO oncebox_consumer;

-- The views are read with their owner's rights: whoever may read them needs no table.
GRANT SELECT ON oncebox.events_v1, oncebox.deliveries_v1, oncebox.outbox_v1 TO oncebox_reader, oncebox_consumer;

-- The gateway reads and writes every row and changes no table: `oncebox migrate` does that, run by the owner. Without the
-- owner's rights it makes no partitions for payloads and drops none; their rows go in slices.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA oncebox TO oncebox_gateway;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA oncebox TO oncebox_gateway;
