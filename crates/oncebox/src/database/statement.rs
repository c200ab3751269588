//! A statement in both dialects. The files are written for Postgres, so that they can be pasted into psql.
//!
//! What SQLite calls otherwise is told apart by word: names, values, and the functions that tell the time. Where it needs other
//! words, both stand in the file: `/*postgres*/ FOR UPDATE /*sqlite*/` is a row lock on Postgres and nothing on SQLite,
//! `/*postgres*/uuid/*sqlite blob*/` is one type or the other.

use super::Value;
use crate::clock::UnixMillis;

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// Postgres.
    Postgres,
}

const POSTGRES: &str = "/*postgres*/";
const SQLITE: &str = "/*sqlite";
const END: &str = "*/";
/// Before every name of ours.
const OURS: &str = "oncebox.";
/// The functions that SQLite does not have: what stands for each before its arguments. It is handed the times.
const FUNCTIONS: [(&str, &str); 3] = [("now_ms", ""), ("steady_ms", "coalesce"), ("sure_ms", "coalesce")];

fn in_sqlite(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((words, after)) = marked(rest) {
            said.push_str(&in_sqlite(words));
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix(OURS).map(split_name) {
            match FUNCTIONS.iter().find(|(function, _)| *function == name) {
                Some((_, other)) => said.push_str(other),
                None => said.extend(["oncebox_", name]),
            }
            rest = after;
        } else {
            let end = untouched(rest).unwrap_or(first.len_utf8());
            said.push_str(if first == '$' { "?" } else { &rest[..end] });
            rest = &rest[end..];
        }
    }
    said
}

/// What SQLite is told where both have words of their own, and what follows.
fn marked(text: &str) -> Option<(&str, &str)> {
    let (words, after) = text.strip_prefix(POSTGRES)?.split_once(SQLITE)?;
    after.split_once(END).filter(|_| !words.contains(POSTGRES))
}

fn split_name(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()))
}

/// The end of a comment or a literal, in which nothing is a word of ours.
fn untouched(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let literal = text.strip_prefix('\'')?;
    Some(literal.find('\'').map_or(text.len(), |end| end + 2))
}

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
        let steady = text.contains("oncebox.steady_ms") || text.contains("oncebox.sure_ms");
        Self { postgres: text.to_owned(), sqlite: in_sqlite(text), steady }
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

    #[cfg(feature = "sqlite")]
    pub(crate) fn sqlite(&self) -> &str {
        &self.sqlite
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_sqlite() {
        for (postgres, sqlite) in [
            ("SELECT a FROM oncebox.events WHERE key = $12", "SELECT a FROM oncebox_events WHERE key = ?12"),
            ("(SELECT oncebox.now_ms($3))", "(SELECT (?3))"),
            ("oncebox.steady_ms ( $4, $3 ) + $5", "coalesce ( ?4, ?3 ) + ?5"),
            ("< (SELECT oncebox.sure_ms($4, $1))", "< (SELECT coalesce(?4, ?1))"),
            ("WHERE x /*postgres*/ FOR\nUPDATE /*sqlite*/)", "WHERE x )"),
            ("CAST($1 AS /*postgres*/uuid/*sqlite blob*/)", "CAST(?1 AS  blob)"),
            ("a /*postgres*/LIKE $3 ESCAPE '!'/*sqlite GLOB $3*/ b", "a  GLOB ?3 b"),
            ("/*postgres*/oncebox.f(a.b)/*sqlite g(oncebox.t)*/", " g(oncebox_t)"),
            (
                "-- a sender's oncebox.x $1\nSELECT 'oncebox.y $2', $1",
                "-- a sender's oncebox.x $1\nSELECT 'oncebox.y $2', ?1",
            ),
            ("'$1''$2' $3", "'$1''$2' ?3"),
        ] {
            assert_eq!(in_sqlite(postgres), sqlite, "{postgres}");
        }
    }

    /// Then SQLite is told Postgres's words, and whoever looks for those finds them.
    #[test]
    fn a_mark_without_its_other_half_is_left_as_it_is() {
        for text in ["a /*postgres*/ FOR UPDATE", "a /*postgres*/ b /*sqlite", "a FOR UPDATE /*sqlite*/"] {
            assert_eq!(in_sqlite(text), text);
        }
        let second = "/*postgres*/uuid, /*postgres*/FOR UPDATE/*sqlite*/";
        assert_eq!(in_sqlite(second), "/*postgres*/uuid, ");
    }
}
