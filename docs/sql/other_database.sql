-- For a consumer whose data lives in another database than Oncebox: the effects that are committed here.
-- Plain SQL: PostgreSQL, MySQL, SQLite, SQL Server (there with varchar in place of text).
create table oncebox_effects (
    handler   varchar(64) not null,
    event_key varchar(36) not null,
    primary key (handler, event_key)
);
