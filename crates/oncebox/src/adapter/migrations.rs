//! Forward-only migrations, embedded. One node at a time runs them, each in a transaction with its own record, so a
//! kill at any point leaves either the old schema or the new one.

use super::StoreError;
use crate::event::sha256;

/// A step of the schema.
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    /// Tells whether a step was edited after it was applied.
    pub(crate) fn checksum(&self) -> String {
        data_encoding::HEXLOWER.encode(&sha256(self.sql.as_bytes()))
    }
}

pub(crate) const SQLITE: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("../../sql/migrations/sqlite/0001_initial.sql") },
    Migration { version: 2, name: "processing", sql: include_str!("../../sql/migrations/sqlite/0002_processing.sql") },
    Migration {
        version: 3,
        name: "arrived_secrets",
        sql: include_str!("../../sql/migrations/sqlite/0003_arrived_secrets.sql"),
    },
    Migration { version: 4, name: "outbox", sql: include_str!("../../sql/migrations/sqlite/0004_outbox.sql") },
    Migration { version: 5, name: "remembered", sql: include_str!("../../sql/migrations/sqlite/0005_remembered.sql") },
    Migration { version: 6, name: "history", sql: include_str!("../../sql/migrations/sqlite/0006_history.sql") },
    Migration {
        version: 7,
        name: "lost_attempts",
        sql: include_str!("../../sql/migrations/sqlite/0007_lost_attempts.sql"),
    },
    Migration { version: 8, name: "steps", sql: include_str!("../../sql/migrations/sqlite/0008_steps.sql") },
    Migration { version: 16, name: "alerts", sql: include_str!("../../sql/migrations/sqlite/0016_alerts.sql") },
];

pub(crate) const POSTGRES: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("../../sql/migrations/postgres/0001_initial.sql") },
    Migration {
        version: 2,
        name: "processing",
        sql: include_str!("../../sql/migrations/postgres/0002_processing.sql"),
    },
    Migration {
        version: 3,
        name: "arrived_secrets",
        sql: include_str!("../../sql/migrations/postgres/0003_arrived_secrets.sql"),
    },
    Migration { version: 4, name: "outbox", sql: include_str!("../../sql/migrations/postgres/0004_outbox.sql") },
    Migration {
        version: 5,
        name: "remembered",
        sql: include_str!("../../sql/migrations/postgres/0005_remembered.sql"),
    },
    Migration { version: 6, name: "history", sql: include_str!("../../sql/migrations/postgres/0006_history.sql") },
    Migration {
        version: 7,
        name: "lost_attempts",
        sql: include_str!("../../sql/migrations/postgres/0007_lost_attempts.sql"),
    },
    Migration { version: 8, name: "steps", sql: include_str!("../../sql/migrations/postgres/0008_steps.sql") },
    Migration { version: 9, name: "functions", sql: include_str!("../../sql/migrations/postgres/0009_functions.sql") },
    Migration { version: 16, name: "alerts", sql: include_str!("../../sql/migrations/postgres/0016_alerts.sql") },
];

/// The steps still to run, given what was applied. Steps that we do not know belong to a newer version of ours running
/// beside us, and are left alone.
pub(crate) fn pending<'m>(known: &'m [Migration], applied: &[(i64, String)]) -> Result<Vec<&'m Migration>, StoreError> {
    let mut pending = Vec::new();
    for step in known {
        match applied.iter().find(|(version, _)| *version == step.version) {
            None => pending.push(step),
            Some((_, checksum)) if *checksum == step.checksum() => {}
            Some(_) => {
                let (version, name) = (step.version, step.name);
                return Err(StoreError::Schema(format!(
                    "migration {version} ({name}) was applied from another text; this database belongs to another build"
                )));
            }
        }
    }
    Ok(pending)
}
