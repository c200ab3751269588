//! One constant per statement that runs inside an application's transaction. Most are files that our own store runs too.

use std::sync::LazyLock;

use super::template::Template;
use super::{Dialect, Statement};

macro_rules! shared {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) static $name: LazyLock<Statement> =
            LazyLock::new(|| Statement::new(include_str!(concat!("../../sql/", $file))));)*
        #[cfg(all(test, feature = "rusqlite"))]
        pub(crate) const SHARED: &[(&str, &LazyLock<Statement>)] = &[$(($file, &$name)),*];
    };
}

macro_rules! of_two {
    ($($name:ident = $postgres:literal, $sqlite:literal;)*) => {
        $(pub(crate) static $name: LazyLock<Statement> = LazyLock::new(|| {
            Statement::of_two(
                include_str!(concat!("../../sql/", $postgres)),
                include_str!(concat!("../../sql/", $sqlite)),
            )
        });)*
    };
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use {of_two, shared};

shared! {
    HAS_IDENTITY = "shared/has_identity.sql";
    IS_REMEMBERED = "shared/is_remembered.sql";
    REGISTER_OWN_HANDLER = "shared/register_own_handler.sql";
    RECORD_ATTEMPT = "shared/record_attempt.sql";
    END_ATTEMPT = "shared/end_attempt.sql";
    EXTEND_LEASE = "shared/extend_lease.sql";
    GIVE_BACK = "shared/give_back.sql";
    UNCLAIM_ONE = "shared/unclaim_one.sql";
    HAS_ORDER_KEYS = "shared/has_order_keys.sql";
    HAS_LOST = "shared/has_lost.sql";
    EXPIRE_LEASES = "shared/expire_leases.sql";
    LOST_ATTEMPT = "shared/lost_attempt.sql";
    HOLD_CLAIM = "shared/hold_claim.sql";
    RECORD_STEP = "shared/record_step.sql";
    STEP_RESULT = "shared/step_result.sql";
    STEADY_CLOCK = "shared/steady_clock.sql";
    SETTLE_STEADY_CLOCK = "shared/settle_steady_clock.sql";
}

/// The claim on Postgres: for whom, which of their deliveries, and what is told of each.
pub(crate) const CLAIM: Template<3> =
    Template::new(include_str!("../../sql/postgres/claim.sql"), ["{wanted}", "{places}", "{answer}"]);
pub(crate) const WITH_PAYLOAD: &str = include_str!("../../sql/postgres/claimed_with_payload.sql");
/// Which of them where order keys do not matter, and where they do; by the attempts that were lost.
pub(crate) const DUE: Template<1> = Template::new(include_str!("../../sql/postgres/claim_due.sql"), ["{lost}"]);
pub(crate) const IN_ORDER: Template<1> =
    Template::new(include_str!("../../sql/postgres/claim_in_order.sql"), ["{lost}"]);
/// The claim on SQLite, by the attempts that were lost.
pub(crate) const CLAIM_SQLITE: Template<1> = Template::new(include_str!("../../sql/sqlite/claim.sql"), ["{lost}"]);

/// The worker's own claim, for one handler in place of several: arrays do not cross the seam.
fn claim(places: &Template<1>, lost: &str) -> Statement {
    let wanted = "(SELECT CAST($1 AS text), CAST($2 AS bigint), CAST($3 AS bigint), CAST($6 AS bigint))";
    let postgres = CLAIM.fill([wanted, &places.fill([&format!("d.lost {lost}")]), WITH_PAYLOAD]);
    Statement::of_two(&postgres, &CLAIM_SQLITE.fill([&format!("r.lost {lost}")]))
}

static CLAIMS: LazyLock<[[Statement; 2]; 2]> =
    LazyLock::new(|| [&DUE, &IN_ORDER].map(|places| ["= 0", "> 0"].map(|lost| claim(places, lost))));

/// The claim of what was lost with its worker before, or of what was not, where order keys matter or not.
pub(super) fn claim_with(lost: bool, in_order: bool) -> &'static Statement {
    &CLAIMS[usize::from(in_order)][usize::from(lost)]
}

/// Only SQLite asks this; Postgres answers a claim with everything.
pub(super) static CLAIMED_EVENT: LazyLock<Statement> =
    LazyLock::new(|| Statement::of_two("", include_str!("../../sql/sqlite/claimed_event.sql")));

of_two! {
    MARK = "postgres/mark.sql", "sqlite/mark.sql";
    SEND = "postgres/send.sql", "sqlite/send.sql";
    REMEMBER = "shared/remember.sql", "sqlite/remember.sql";
    CREATE_MIGRATIONS = "postgres/create_migrations.sql", "sqlite/create_migrations.sql";
    APPLIED_MIGRATIONS = "postgres/applied_migrations.sql", "sqlite/applied_migrations.sql";
    RECORD_MIGRATION = "postgres/record_migration.sql", "sqlite/record_migration.sql";
    APPLIED_REPEATABLES = "postgres/applied_repeatables.sql", "sqlite/applied_repeatables.sql";
    RECORD_REPEATABLE = "postgres/record_repeatable.sql", "sqlite/record_repeatable.sql";
    HAS_MIGRATIONS = "postgres/has_migrations.sql", "sqlite/has_migrations.sql";
}

/// Postgres asks for the mark in the same statement; SQLite has asked before.
pub(super) static FINISH_ONE: LazyLock<Statement> = LazyLock::new(|| {
    let sqlite = Statement::new(include_str!("../../sql/shared/finish_one.sql"));
    Statement::of_two(include_str!("../../sql/postgres/finish_marked.sql"), sqlite.in_dialect(Dialect::Sqlite))
});

#[cfg(any(feature = "deadpool-postgres", feature = "diesel-async", feature = "sqlx-postgres"))]
pub(super) const BEGIN_MARKED: &str = include_str!("../../sql/postgres/begin_marked.sql");
pub(super) const IS_MARKED: &str = include_str!("../../sql/postgres/is_marked.sql");
pub(super) const RELEASE_MARK: &str = include_str!("../../sql/sqlite/release_mark.sql");

/// Makes a commit wait for the standby, though nothing was written.
pub(crate) const CONFIRM: &str = include_str!("../../sql/postgres/confirm.sql");

pub(super) const LOCK_MIGRATIONS: &str = include_str!("../../sql/postgres/lock_migrations.sql");
