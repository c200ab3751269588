//! A statement in both dialects. The files are written for Postgres, so that they can be pasted into psql.

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// Postgres.
    Postgres,
}

/// A statement in both dialects.
#[derive(Debug)]
pub(crate) struct Statement {
    postgres: String,
    sqlite: String,
}

impl Statement {
    /// Takes the text as Postgres wants it.
    pub(crate) fn new(text: &str) -> Self {
        let sqlite = text
            .replace("FOR UPDATE SKIP LOCKED", "")
            .replace("FOR KEY SHARE", "")
            .replace(" AS uuid)", " AS blob)")
            .replace("LIKE $3 ESCAPE '!'", "GLOB $3")
            .replace("oncebox.now_ms(", "(")
            .replace("oncebox.", "oncebox_")
            .replace('$', "?");
        Self { postgres: text.to_owned(), sqlite }
    }

    /// Takes two texts, where the databases have no words in common.
    pub(crate) fn of_two(postgres: &str, sqlite: &str) -> Self {
        Self { postgres: postgres.to_owned(), sqlite: sqlite.to_owned() }
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
