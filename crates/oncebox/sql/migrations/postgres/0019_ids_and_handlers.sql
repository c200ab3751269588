-- An id that may be made of several parts is not found through the ledger: what is shown does not tell the parts.
CREATE INDEX events_by_joined_id ON oncebox.events (event_id)
    WHERE identity = 'id' AND state <> 'conflict' AND replace(event_id, ':', '') <> event_id;

-- Whether a config describes the handler: an application that runs it beside then leaves the description alone.
ALTER TABLE oncebox.handlers ADD COLUMN configured bigint NOT NULL DEFAULT 0;
