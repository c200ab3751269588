//! Forward-only migrations, embedded. One node at a time runs them, each in a transaction with its own record, so a
//! kill at any point leaves either the old schema or the new one.

use super::StoreError;
use oncebox_verify::sha256;

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
    Migration { version: 12, name: "retention", sql: include_str!("../../sql/migrations/sqlite/0012_retention.sql") },
    Migration {
        version: 14,
        name: "function_words",
        sql: include_str!("../../sql/migrations/sqlite/0014_function_words.sql"),
    },
    Migration { version: 16, name: "alerts", sql: include_str!("../../sql/migrations/sqlite/0016_alerts.sql") },
    Migration {
        version: 17,
        name: "steady_clock",
        sql: include_str!("../../sql/migrations/sqlite/0017_steady_clock.sql"),
    },
    Migration { version: 18, name: "claims", sql: include_str!("../../sql/migrations/sqlite/0018_claims.sql") },
    Migration {
        version: 19,
        name: "ids_and_handlers",
        sql: include_str!("../../sql/migrations/sqlite/0019_ids_and_handlers.sql"),
    },
    Migration {
        version: 22,
        name: "told_values",
        sql: include_str!("../../sql/migrations/sqlite/0022_told_values.sql"),
    },
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
    Migration {
        version: 11,
        name: "outbox_checks",
        sql: include_str!("../../sql/migrations/postgres/0011_outbox_checks.sql"),
    },
    Migration { version: 12, name: "retention", sql: include_str!("../../sql/migrations/postgres/0012_retention.sql") },
    Migration {
        version: 14,
        name: "function_words",
        sql: include_str!("../../sql/migrations/postgres/0014_function_words.sql"),
    },
    Migration { version: 16, name: "alerts", sql: include_str!("../../sql/migrations/postgres/0016_alerts.sql") },
    Migration {
        version: 17,
        name: "steady_clock",
        sql: include_str!("../../sql/migrations/postgres/0017_steady_clock.sql"),
    },
    Migration { version: 18, name: "claims", sql: include_str!("../../sql/migrations/postgres/0018_claims.sql") },
    Migration {
        version: 19,
        name: "ids_and_handlers",
        sql: include_str!("../../sql/migrations/postgres/0019_ids_and_handlers.sql"),
    },
    Migration {
        version: 22,
        name: "told_values",
        sql: include_str!("../../sql/migrations/postgres/0022_told_values.sql"),
    },
];

/// A step that the database has.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) version: i64,
    pub(crate) checksum: String,
    /// The newest step that a program must know at least, as the steps of the database say; 0 where none says anything.
    pub(crate) floor: i64,
}

/// The steps still to run, given what was applied. Steps that we do not know belong to a newer version of ours running
/// beside us, and are left alone, unless one of them says that programs like this one cannot live with it.
pub(crate) fn pending<'m>(known: &'m [Migration], applied: &[Applied]) -> Result<Vec<&'m Migration>, StoreError> {
    let newest = known.iter().map(|step| step.version).max().unwrap_or(0);
    if let Some(floor) = applied.iter().map(|step| step.floor).max().filter(|floor| *floor > newest) {
        return Err(StoreError::Schema(format!(
            "this database was changed by a newer oncebox in a way that this one cannot work with: it needs a program that \
             knows migration {floor}, and this one knows none after {newest}; run the newer program, or restore a backup \
             from before the upgrade"
        )));
    }
    let mut pending = Vec::new();
    for step in known {
        match applied.iter().find(|one| one.version == step.version) {
            None => pending.push(step),
            Some(one) if one.checksum == step.checksum() => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Migration] =
        &[Migration { version: 1, name: "a", sql: "a" }, Migration { version: 4, name: "b", sql: "b" }];

    /// What is still to run, or a word of the refusal, where these steps were applied with this floor.
    fn check(versions: &[i64], floor: i64, expected: Result<&[i64], &str>) {
        let checksum =
            |version| KNOWN.iter().find(|step| step.version == version).map_or_else(String::new, Migration::checksum);
        let applied: Vec<_> =
            versions.iter().map(|version| Applied { version: *version, checksum: checksum(*version), floor }).collect();
        match (pending(KNOWN, &applied), expected) {
            (Ok(steps), Ok(expected)) => {
                let found: Vec<i64> = steps.iter().map(|step| step.version).collect();
                assert_eq!(found, expected, "{versions:?} {floor}");
            }
            (Err(StoreError::Schema(text)), Err(word)) => assert!(text.contains(word), "{text}"),
            (found, _) => panic!("{versions:?} {floor}: {:?}", found.map(|steps| steps.len())),
        }
    }

    #[test]
    fn a_newer_schema_is_lived_with_unless_it_says_otherwise() {
        check(&[], 0, Ok(&[1, 4]));
        check(&[1], 0, Ok(&[4]));
        check(&[1, 4], 0, Ok(&[]));
        check(&[1, 4, 5], 0, Ok(&[]));
        check(&[1, 4, 5], 4, Ok(&[]));
        check(&[1, 4, 5], 5, Err("knows migration 5, and this one knows none after 4"));
    }
}
