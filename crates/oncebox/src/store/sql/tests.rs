use super::*;
use crate::database::migrations::SQLITE;

/// Words that only Postgres knows. Some of them SQLite takes in silence for something else.
const OF_POSTGRES: [&str; 9] =
    ["oncebox.", "$", "/*postgres", "/*sqlite", "uuid", "bytea", "FOR UPDATE", "FOR KEY SHARE", "::"];

#[test]
fn sqlite_understands_every_shared_statement() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    for step in SQLITE.migrations {
        connection.execute_batch(step.sql).unwrap();
    }
    connection.execute_batch(SQLITE.repeatable.sql).unwrap();
    for (name, statement) in SHARED.iter().chain(claims::SHARED).chain(FILLED) {
        let text = statement.sqlite();
        let said: String = text.lines().filter(|line| !line.starts_with("--")).collect();
        for word in OF_POSTGRES {
            assert!(!said.contains(word), "{name}: {word} in {said}");
        }
        // The writer compares without regard to case, so only what the readers run may say LIKE.
        let of_readers = name.ends_with("_page.sql") || *name == "shared/events_after.sql";
        assert!(of_readers || !said.contains(" LIKE "), "{name}: {said}");
        connection.prepare(text).unwrap_or_else(|error| panic!("{name}: {error} in {text}"));
    }
}
