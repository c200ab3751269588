//! A statement in both dialects. The files are written for Postgres, so that they can be pasted into psql.

use super::Value;
use crate::clock::UnixMillis;

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// Postgres.
    Postgres,
}

/// The calls of the function `lists`: the list, and the id beside its token.
const LISTS: [(&str, &str, &str); 3] = [
    ("b.begun_alone", "d.delivery", "d.token"),
    ("b.begun_together", "d.delivery", "d.token"),
    ("b.begun_relay", "m.id", "m.token"),
];

/// The same in SQLite's words: the last halves of both, side by side.
fn lists(text: &str) -> String {
    LISTS.iter().fold(text.to_owned(), |text, (list, id, token)| {
        let said = format!("(instr({list}, CAST(substr({id}, 9) || substr({token}, 9) AS BLOB)) > 0)");
        text.replace(&format!("oncebox.lists({list}, {id}, {token})"), &said)
    })
}

/// A statement in both dialects.
#[derive(Debug)]
pub(crate) struct Statement {
    postgres: String,
    sqlite: String,
    /// Whether its last value is the steady time, which the seam adds.
    steady: bool,
}

impl Statement {
    /// Takes the text as Postgres wants it.
    pub(crate) fn new(text: &str) -> Self {
        let sqlite = lists(text)
            .replace("FOR UPDATE SKIP LOCKED", "")
            .replace("FOR UPDATE", "")
            .replace("FOR KEY SHARE", "")
            .replace(" AS uuid)", " AS blob)")
            .replace("LIKE $3 ESCAPE '!'", "GLOB $3")
            .replace("oncebox.now_ms(", "(")
            .replace("oncebox.steady_ms(", "coalesce(")
            .replace("oncebox.sure_ms(", "coalesce(")
            .replace("oncebox.", "oncebox_")
            .replace('$', "?");
        let steady = text.contains("oncebox.steady_ms(") || text.contains("oncebox.sure_ms(");
        Self { postgres: text.to_owned(), sqlite, steady }
    }

    /// Takes two texts, where the databases have no words in common.
    pub(crate) fn of_two(postgres: &str, sqlite: &str) -> Self {
        Self { postgres: postgres.to_owned(), sqlite: sqlite.to_owned(), steady: false }
    }

    /// Its values, with the steady time behind them where it asks for that; null is whatever time the database says, or
    /// on SQLite the time that is handed in besides.
    pub(crate) fn with(&self, mut values: Vec<Value>, steady: Option<UnixMillis>) -> Vec<Value> {
        if self.steady {
            values.push(steady.into());
        }
        values
    }

    pub(crate) fn in_dialect(&self, dialect: Dialect) -> &str {
        match dialect {
            Dialect::Postgres => &self.postgres,
            Dialect::Sqlite => &self.sqlite,
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(&self) -> &str {
        &self.postgres
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn sqlite(&self) -> &str {
        &self.sqlite
    }
}
