//! What the schema is made of, and what of it is still to run. Pure.
//!
//! Migrations go forward only, each once. Repeatable files hold what has no data, and are run again whenever their text
//! changes.

use super::{Dialect, StoreError};
use oncebox_verify::sha256;

/// A text that makes a part of the schema.
pub(crate) struct SchemaFile {
    /// Of a migration, its place in their order. Of a repeatable file the higher number wins, so that two versions of the
    /// program beside each other do not replace it back and forth; within one number the text of whoever started last,
    /// which only development knows.
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

pub(crate) struct Schema {
    /// Each runs once.
    pub(crate) migrations: &'static [SchemaFile],
    /// Is run again when its text changes.
    pub(crate) repeatable: SchemaFile,
}

pub(crate) const SQLITE: &Schema = &Schema {
    migrations: &[SchemaFile {
        version: 1,
        name: "initial",
        sql: include_str!("../../sql/migrations/sqlite/0001_initial.sql"),
    }],
    repeatable: SchemaFile { version: 1, name: "views", sql: include_str!("../../sql/migrations/sqlite/views.sql") },
};

pub(crate) const POSTGRES: &Schema = &Schema {
    migrations: &[SchemaFile {
        version: 1,
        name: "initial",
        sql: include_str!("../../sql/migrations/postgres/0001_initial.sql"),
    }],
    repeatable: SchemaFile {
        version: 1,
        name: "functions",
        sql: concat!(
            include_str!("../../sql/migrations/postgres/functions/common.sql"),
            include_str!("../../sql/migrations/postgres/functions/claim.sql"),
            include_str!("../../sql/migrations/postgres/functions/finish.sql"),
            include_str!("../../sql/migrations/postgres/functions/send.sql"),
        ),
    },
};

impl Schema {
    pub(crate) fn of(dialect: Dialect) -> &'static Self {
        match dialect {
            Dialect::Sqlite => SQLITE,
            Dialect::Postgres => POSTGRES,
        }
    }

    /// The texts that this database was made from. A repeatable file of another number is not ours, and may lack what ours has.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn texts_of(&self, recorded: &Recorded) -> impl Iterator<Item = &'static str> {
        let has = |one: &&SchemaFile| recorded.migrations.iter().any(|applied| applied.version == one.version);
        let is = |one: &&SchemaFile| {
            let mut there = recorded.repeatables.iter();
            there.any(|repeated| repeated.name == one.name && repeated.version == one.version)
        };
        let migrations = self.migrations.iter().filter(has).map(|one| one.sql);
        migrations.chain(Some(&self.repeatable).filter(is).map(|one| one.sql))
    }
}

/// What a database says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) migrations: Vec<Applied>,
    pub(crate) repeatables: Vec<Repeated>,
}

/// A migration that the database has.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) version: i64,
    pub(crate) checksum: String,
    /// The newest step that a program must know at least, as the steps of the database say; 0 where none says anything.
    pub(crate) floor: i64,
}

/// A repeatable file as it was run last.
#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    pub(crate) name: String,
    pub(crate) version: i64,
    pub(crate) checksum: String,
}

/// Something that is still to run.
pub(crate) struct Step<'s> {
    pub(crate) file: &'s SchemaFile,
    pub(crate) is_repeatable: bool,
}

/// Tells whether a text was edited since it was run.
pub(crate) fn checksum(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&sha256(text.as_bytes()))
}

/// What is still to run, in this order. Steps that we do not know belong to a newer version of ours running beside us, and are
/// left alone, unless one of them says that programs like this one cannot live with it.
pub(crate) fn pending<'s>(schema: &'s Schema, recorded: &Recorded) -> Result<Vec<Step<'s>>, StoreError> {
    let newest = schema.migrations.iter().map(|step| step.version).max().unwrap_or(0);
    if let Some(floor) = recorded.migrations.iter().map(|step| step.floor).max().filter(|floor| *floor > newest) {
        return Err(StoreError::Schema(format!(
            "this database was changed by a newer oncebox in a way that this one cannot work with: it needs a program that \
             knows migration {floor}, and this one knows none after {newest}; run the newer program, or restore a backup \
             from before the upgrade"
        )));
    }
    let mut steps = Vec::new();
    for one in schema.migrations {
        match recorded.migrations.iter().find(|applied| applied.version == one.version) {
            None => steps.push(Step { file: one, is_repeatable: false }),
            Some(applied) if applied.checksum == checksum(one.sql) => {}
            Some(_) => return Err(another_text(one)),
        }
    }
    if is_due(&schema.repeatable, recorded) {
        steps.push(Step { file: &schema.repeatable, is_repeatable: true });
    }
    Ok(steps)
}

fn another_text(one: &SchemaFile) -> StoreError {
    let (version, name) = (one.version, one.name);
    StoreError::Schema(format!(
        "migration {version} ({name}) was applied from another text: this database was made by a development build of \
         oncebox, and there is no way from its schema to this one; use a new, empty database, or run the build that made it"
    ))
}

fn is_due(one: &SchemaFile, recorded: &Recorded) -> bool {
    match recorded.repeatables.iter().find(|repeated| repeated.name == one.name) {
        None => true,
        Some(repeated) if repeated.version == one.version => repeated.checksum != checksum(one.sql),
        Some(repeated) => repeated.version < one.version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: Schema = Schema {
        migrations: &[SchemaFile { version: 1, name: "a", sql: "a" }, SchemaFile { version: 4, name: "b", sql: "b" }],
        repeatable: SchemaFile { version: 3, name: "f", sql: "f" },
    };

    fn applied(version: i64, text: &str, floor: i64) -> Applied {
        Applied { version, checksum: checksum(text), floor }
    }

    fn repeated(version: i64, text: &str) -> Repeated {
        Repeated { name: "f".to_owned(), version, checksum: checksum(text) }
    }

    /// What is still to run, or a word of the refusal.
    #[track_caller]
    fn check(migrations: &[Applied], repeatables: &[Repeated], expected: Result<&[&str], &str>) {
        let recorded = Recorded { migrations: migrations.to_vec(), repeatables: repeatables.to_vec() };
        match (pending(&SCHEMA, &recorded), expected) {
            (Ok(steps), Ok(expected)) => {
                assert_eq!(steps.iter().map(|step| step.file.name).collect::<Vec<_>>(), expected);
            }
            (Err(StoreError::Schema(text)), Err(word)) => assert!(text.contains(word), "{text}"),
            (found, _) => panic!("{:?}", found.map(|steps| steps.len())),
        }
    }

    #[test]
    fn what_is_not_recorded_is_still_to_run() {
        let (a, b, f) = (|| applied(1, "a", 0), || applied(4, "b", 0), || repeated(3, "f"));
        check(&[], &[], Ok(&["a", "b", "f"]));
        check(&[a()], &[], Ok(&["b", "f"]));
        check(&[a()], &[f()], Ok(&["b"]));
        check(&[a(), b()], &[], Ok(&["f"]));
        check(&[a(), b()], &[f()], Ok(&[]));
        check(&[a(), b()], &[Repeated { name: "other".to_owned(), ..f() }], Ok(&["f"]));
    }

    #[test]
    fn a_newer_schema_is_lived_with_unless_it_says_otherwise() {
        let with_later = |floor| [applied(1, "a", 0), applied(4, "b", 0), applied(5, "?", floor)];
        check(&with_later(0), &[repeated(3, "f")], Ok(&[]));
        check(&with_later(4), &[repeated(3, "f")], Ok(&[]));
        check(&with_later(5), &[repeated(3, "f")], Err("knows migration 5, and this one knows none after 4"));
    }

    #[test]
    fn a_migration_from_another_text_is_refused_with_a_cure() {
        let other = [applied(1, "A", 0), applied(4, "b", 0)];
        check(&other, &[repeated(3, "f")], Err("migration 1 (a) was applied from another text"));
        check(&other, &[], Err("use a new, empty database"));
    }

    #[test]
    fn of_two_texts_the_one_with_the_higher_number_stays() {
        let both = || [applied(1, "a", 0), applied(4, "b", 0)];
        check(&both(), &[repeated(2, "old")], Ok(&["f"]));
        check(&both(), &[repeated(2, "f")], Ok(&["f"]));
        check(&both(), &[repeated(3, "edited")], Ok(&["f"]));
        check(&both(), &[repeated(4, "new")], Ok(&[]));
        check(&both(), &[repeated(4, "f")], Ok(&[]));
    }
}
