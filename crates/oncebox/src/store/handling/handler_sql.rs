//! Reads the SQL of a handler: splits it into statements and finds the names that are to be bound. Pure.
//!
//! A name counts after a single colon and outside quotes, comments, dollar quotes and casts. Each becomes a numbered
//! parameter with its type, so that both databases see what the other one does. What would end the transaction is
//! refused: the effect and its mark are one.

use crate::store::handling::handler_block::Loop;
use crate::store::{Claimed, Dialect, Value};

/// The statements of a handler, ready to be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerSql {
    pub(in crate::store) statements: Vec<Prepared>,
    /// Whether they may leave something in the session that outlives the transaction: a setting, a lock, a role.
    pub(in crate::store) leaves_traces: bool,
    /// The same as one block for many events, where they are of a kind that allows it.
    pub(in crate::store) looped: Option<Loop>,
}

/// One statement with numbered parameters, and what each of them is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Prepared {
    pub(in crate::store) text: String,
    pub(in crate::store) binds: Vec<Bind>,
    first_word: String,
}

/// Why the SQL of a handler cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerSqlError {
    /// No statement at all.
    #[error("holds no statement")]
    Empty,
    /// A quote or comment without its end.
    #[error("{0} is not closed")]
    Open(&'static str),
    /// A statement that would end or nest the transaction.
    #[error("{0} cannot be used: the effect is one transaction with its mark")]
    Transaction(String),
    /// A statement that would change the session, which others use after it.
    #[error("{0} cannot be used: the session is shared with others")]
    Session(String),
    /// A parameter that is not one of ours.
    #[error("{bind} in line {line}, column {column} of the SQL cannot be bound")]
    Unknown {
        /// As it is written.
        bind: String,
        /// Its line in the SQL, from 1.
        line: usize,
        /// Its column, from 1.
        column: usize,
    },
}

/// What a parameter stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Bind {
    Source,
    EventId,
    Key,
    Delivery,
    Type,
    Body,
    BodyBytes,
    ReceivedAt,
    Attempt,
}

/// The body is no text that a database could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be kept as text (NUL or invalid UTF-8); use :body_bytes")]
pub(in crate::store) struct NotText;

impl HandlerSql {
    /// What may be bound, each with its colon.
    pub const BINDS: [&'static str; 9] =
        [":source", ":event_id", ":key", ":delivery", ":type", ":body", ":body_bytes", ":received_at", ":attempt"];

    /// Reads the statements; fails with the first thing that is wrong.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, HandlerSqlError> {
        let mut reader = Reader::new(text, dialect);
        reader.read();
        let looped = reader.looped();
        match reader.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(Self { statements: reader.statements, leaves_traces: reader.leaves_traces, looped }),
        }
    }

    /// Everything that is wrong with the statements, in their order, each thing once.
    pub fn problems(text: &str, dialect: Dialect) -> Vec<HandlerSqlError> {
        let mut reader = Reader::new(text, dialect);
        reader.read();
        reader.problems
    }

    /// The statements up to the first that changes the schema: what follows may need what that one makes.
    pub(in crate::store) fn preparable(&self) -> impl Iterator<Item = &str> {
        let makes = |one: &&Prepared| !DEFINING.contains(&one.first_word.as_str());
        self.statements.iter().take_while(makes).map(|one| one.text.as_str())
    }

    /// Whether one of them binds the body.
    pub(crate) fn binds_body(&self) -> bool {
        let is_body = |bind: &Bind| matches!(bind, Bind::Body | Bind::BodyBytes);
        self.statements.iter().any(|statement| statement.binds.iter().any(is_body))
    }

    /// Whether it may write outbox messages: a guess that only decides how soon somebody looks.
    pub(crate) fn may_send(&self) -> bool {
        self.statements.iter().any(|statement| statement.text.to_ascii_lowercase().contains("send"))
    }
}

impl Prepared {
    pub(in crate::store) fn values(&self, claimed: &Claimed) -> Result<Vec<Value>, NotText> {
        self.binds.iter().map(|bind| bind.value(claimed)).collect()
    }
}

impl Bind {
    /// In the order of [`HandlerSql::BINDS`].
    const ALL: [Self; 9] = [
        Self::Source,
        Self::EventId,
        Self::Key,
        Self::Delivery,
        Self::Type,
        Self::Body,
        Self::BodyBytes,
        Self::ReceivedAt,
        Self::Attempt,
    ];

    fn named(written: &str) -> Option<Self> {
        HandlerSql::BINDS.iter().position(|known| *known == written).map(|index| Self::ALL[index])
    }

    pub(in crate::store) fn name(self) -> &'static str {
        let index = Self::ALL.iter().position(|bind| *bind == self);
        index.map_or("", |index| HandlerSql::BINDS[index].trim_start_matches(':'))
    }

    /// What an array of its values is on Postgres.
    pub(in crate::store) fn array_type(self) -> &'static str {
        match self {
            Self::ReceivedAt | Self::Attempt => "bigint[]",
            Self::BodyBytes => "bytea[]",
            _ => "text[]",
        }
    }

    /// The expression that stands in its place, where `value` is what the database knows it as.
    fn expression(self, value: &str, dialect: Dialect) -> String {
        match (dialect, self) {
            (Dialect::Sqlite, Self::ReceivedAt) => {
                format!("strftime('%Y-%m-%dT%H:%M:%fZ', {value} / 1000.0, 'unixepoch')")
            }
            (Dialect::Sqlite, _) => value.to_owned(),
            (Dialect::Postgres, Self::ReceivedAt) => format!("to_timestamp({value}::bigint / 1000.0)"),
            (Dialect::Postgres, Self::Attempt) => format!("({value}::bigint::int)"),
            (Dialect::Postgres, Self::BodyBytes) => format!("({value}::bytea)"),
            (Dialect::Postgres, Self::Delivery) => format!("({value}::text::uuid)"),
            (Dialect::Postgres, _) => format!("({value}::text)"),
        }
    }

    pub(in crate::store) fn value(self, claimed: &Claimed) -> Result<Value, NotText> {
        Ok(match self {
            Self::Source => claimed.source.as_str().into(),
            Self::EventId => claimed.event_id.as_str().into(),
            Self::Key => Value::Text(claimed.key.to_string()),
            Self::Delivery => Value::Text(claimed.fence.delivery.to_string()),
            Self::Type => claimed.event_type.as_str().into(),
            Self::Body => match std::str::from_utf8(&claimed.body) {
                Ok(text) if !text.contains('\0') => text.into(),
                _ => return Err(NotText),
            },
            Self::BodyBytes => Value::Bytes(claimed.body.to_vec()),
            Self::ReceivedAt => claimed.received_at.into(),
            Self::Attempt => i64::from(claimed.attempt).into(),
        })
    }
}

/// First words of statements that would end, nest or leave the transaction.
const REFUSED: [&str; 15] = [
    "abort",
    "attach",
    "begin",
    "commit",
    "copy",
    "detach",
    "end",
    "pragma",
    "prepare",
    "release",
    "rollback",
    "savepoint",
    "start",
    "vacuum",
    "reindex",
];

/// First words of statements that would take prepared statements or messages from whoever uses the session next.
const REFUSED_IN_SESSION: [&str; 5] = ["deallocate", "discard", "listen", "load", "unlisten"];

/// First words of statements after which other names may be there.
const DEFINING: [&str; 5] = ["alter", "create", "do", "drop", "set"];

/// First words of statements that leave nothing behind in the session but their rows.
const TRACELESS: [&str; 8] = ["delete", "insert", "merge", "select", "table", "update", "values", "with"];

/// First words of statements that may be part of a loop.
const LOOPED: [&str; 3] = ["delete", "insert", "update"];

/// Words that do, wherever they stand. What hides inside a function of the application's own is not seen.
const TRACES: [&str; 7] = [
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "set_config",
    "temp",
    "temporary",
];

struct Reader<'a> {
    text: &'a str,
    at: usize,
    dialect: Dialect,
    current: Prepared,
    first_word: Option<String>,
    has_code: bool,
    leaves_traces: bool,
    /// The brackets that are open: directly within a square one Postgres writes slices with a colon.
    open: Vec<char>,
    answers: bool,
    statements: Vec<Prepared>,
    /// The current statement, and those before it, with values from arrays in place of parameters.
    current_looped: String,
    looped: Vec<String>,
    problems: Vec<HandlerSqlError>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, dialect: Dialect) -> Self {
        Self {
            text,
            at: 0,
            dialect,
            current: Prepared::default(),
            first_word: None,
            has_code: false,
            leaves_traces: false,
            open: Vec::new(),
            answers: false,
            statements: Vec::new(),
            current_looped: String::new(),
            looped: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn read(&mut self) {
        // Nothing can be told about what follows a quote or comment without an end.
        if let Err(open) = self.read_to_the_end() {
            self.refuse(open);
        } else if self.statements.is_empty() && self.problems.is_empty() {
            self.refuse(HandlerSqlError::Empty);
        }
    }

    fn read_to_the_end(&mut self) -> Result<(), HandlerSqlError> {
        let postgres = self.dialect == Dialect::Postgres;
        while let Some(c) = self.rest().chars().next() {
            match c {
                '\'' => self.quoted('\'', false)?,
                '"' => self.quoted('"', false)?,
                '`' if !postgres => self.quoted('`', false)?,
                '[' if !postgres => self.quoted(']', false)?,
                '-' if self.rest().starts_with("--") => self.take(self.rest().find('\n').unwrap_or(self.rest().len())),
                '/' if self.rest().starts_with("/*") => self.comment()?,
                '$' if postgres => self.dollar()?,
                '$' | '?' | '@' if !postgres => {
                    self.refuse_bind(c.to_string());
                    self.take(1);
                }
                ':' => self.colon(),
                ';' => {
                    self.at += 1;
                    self.end();
                }
                c if is_word(c) => self.word()?,
                c => {
                    self.has_code |= !c.is_whitespace();
                    self.bracket(c);
                    self.take(c.len_utf8());
                }
            }
        }
        self.end();
        Ok(())
    }

    fn looped(&self) -> Option<Loop> {
        let fits = |one: &Prepared| LOOPED.contains(&one.first_word.as_str());
        let all_fit = self.dialect == Dialect::Postgres && self.statements.iter().all(fits);
        (all_fit && !self.answers && !self.leaves_traces).then(|| Loop::new(&self.statements, &self.looped))
    }

    fn refuse(&mut self, problem: HandlerSqlError) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Says which bind is not known and where it stands; once for each name.
    fn refuse_bind(&mut self, bind: String) {
        let is_told =
            |problem: &HandlerSqlError| matches!(problem, HandlerSqlError::Unknown { bind: told, .. } if *told == bind);
        if !self.problems.iter().any(is_told) {
            let before = &self.text[..self.at];
            let (line, start) = (before.matches('\n').count() + 1, before.rfind('\n').map_or(0, |at| at + 1));
            let column = before[start..].chars().count() + 1;
            self.problems.push(HandlerSqlError::Unknown { bind, line, column });
        }
    }

    fn bracket(&mut self, c: char) {
        match c {
            '(' | '[' => self.open.push(c),
            ')' | ']' => {
                self.open.pop();
            }
            _ => {}
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Keeps so many bytes as they are.
    fn take(&mut self, bytes: usize) {
        let taken = &self.rest()[..bytes];
        self.current.text.push_str(taken);
        self.current_looped.push_str(taken);
        self.at += bytes;
    }

    /// A doubled quote inside is two quoted parts in a row, which comes to the same.
    fn quoted(&mut self, close: char, escapes: bool) -> Result<(), HandlerSqlError> {
        self.has_code = true;
        let mut escaped = false;
        for (index, c) in self.rest().char_indices().skip(1) {
            if escaped {
                escaped = false;
            } else if escapes && c == '\\' {
                escaped = true;
            } else if c == close {
                self.take(index + c.len_utf8());
                return Ok(());
            }
        }
        Err(HandlerSqlError::Open("a quote"))
    }

    /// Postgres nests comments, SQLite does not.
    fn comment(&mut self) -> Result<(), HandlerSqlError> {
        let (rest, mut depth, mut at) = (self.rest(), 1_usize, 2);
        while depth > 0 {
            let tail = &rest.as_bytes()[at..];
            if tail.starts_with(b"*/") {
                (depth, at) = (depth - 1, at + 2);
            } else if tail.starts_with(b"/*") && self.dialect == Dialect::Postgres {
                (depth, at) = (depth + 1, at + 2);
            } else if tail.is_empty() {
                return Err(HandlerSqlError::Open("a comment"));
            } else {
                at += 1;
            }
        }
        self.take(at);
        Ok(())
    }

    fn dollar(&mut self) -> Result<(), HandlerSqlError> {
        self.has_code = true;
        let after = &self.rest()[1..];
        let tag = &after[..after.find(|c| !is_word(c)).unwrap_or(after.len())];
        if tag.starts_with(|c: char| c.is_ascii_digit()) {
            self.refuse_bind(format!("${tag}"));
            self.take(1 + tag.len());
            return Ok(());
        }
        if !after[tag.len()..].starts_with('$') {
            self.take(1);
            return Ok(());
        }
        let quote = format!("${tag}$");
        let inside = &self.rest()[quote.len()..];
        let end = inside.find(&quote).ok_or(HandlerSqlError::Open("a dollar quote"))?;
        self.take(quote.len() + end + quote.len());
        Ok(())
    }

    fn colon(&mut self) {
        self.has_code = true;
        if self.rest().starts_with("::") {
            return self.take(2);
        }
        let rest = self.rest();
        let written = &rest[..rest[1..].find(|c| !is_word(c)).map_or(rest.len(), |end| end + 1)];
        if let Some(bind) = Bind::named(written) {
            self.at += written.len();
            return self.bind(bind);
        }
        // On Postgres a colon without a name is an assignment, and one in square brackets a slice of an array. Elsewhere
        // it would only hear of a syntax error; SQLite would quietly bind nothing.
        let is_other = written.len() == 1 || self.open.last() == Some(&'[');
        if self.dialect == Dialect::Sqlite || !is_other {
            self.refuse_bind(written.to_owned());
        }
        self.take(written.len());
    }

    fn bind(&mut self, bind: Bind) {
        let known = self.current.binds.iter().position(|one| *one == bind);
        let number = known.unwrap_or_else(|| {
            self.current.binds.push(bind);
            self.current.binds.len() - 1
        });
        let sign = if self.dialect == Dialect::Postgres { '$' } else { '?' };
        self.current.text.push_str(&bind.expression(&format!("{sign}{}", number + 1), self.dialect));
        let element = format!("oncebox_{}[oncebox_n]", bind.name());
        self.current_looped.push_str(&bind.expression(&element, self.dialect));
    }

    fn word(&mut self) -> Result<(), HandlerSqlError> {
        self.has_code = true;
        // A dollar may stand inside a name, where it opens no quote.
        let rest = self.rest();
        let length = rest.find(|c| !is_word(c) && c != '$').unwrap_or(rest.len());
        let word = &rest[..length];
        let lower = word.to_ascii_lowercase();
        self.leaves_traces |= TRACES.contains(&lower.as_str());
        self.answers |= lower == "returning";
        self.first_word.get_or_insert(lower);
        self.take(length);
        let escapes = self.dialect == Dialect::Postgres && word.eq_ignore_ascii_case("e");
        if escapes && self.rest().starts_with('\'') { self.quoted('\'', true) } else { Ok(()) }
    }

    fn end(&mut self) {
        let (statement, looped) = (std::mem::take(&mut self.current), std::mem::take(&mut self.current_looped));
        let first_word = self.first_word.take().unwrap_or_default();
        self.leaves_traces |= !first_word.is_empty() && !TRACELESS.contains(&first_word.as_str());
        if REFUSED.contains(&first_word.as_str()) {
            self.refuse(HandlerSqlError::Transaction(first_word.to_ascii_uppercase()));
        }
        if REFUSED_IN_SESSION.contains(&first_word.as_str()) {
            self.refuse(HandlerSqlError::Session(first_word.to_ascii_uppercase()));
        }
        if std::mem::take(&mut self.has_code) {
            self.looped.push(looped.trim().to_owned());
            self.statements.push(Prepared { text: statement.text.trim().to_owned(), first_word, ..statement });
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || !c.is_ascii()
}

#[cfg(test)]
mod tests;
