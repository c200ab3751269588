-- An id that may be made of several parts is not found through the ledger: what is shown does not tell the parts.
CREATE INDEX oncebox_events_by_joined_id ON oncebox_events (event_id)
    WHERE identity = 'id' AND state <> 'conflict' AND replace(event_id, ':', '') <> event_id;

-- Whether a config describes the handler: an application that runs it beside then leaves the description alone.
ALTER TABLE oncebox_handlers ADD COLUMN configured INTEGER NOT NULL DEFAULT 0;
