//! What can go wrong with the database, by what a caller can do about it. The driver's error is kept as source.

use crate::fault::Injected;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A failed store call. Nothing of it was committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else holds what we need; the same call may go through later.
    #[error("database is busy")]
    Busy(#[source] BoxError),
    /// No connection, or it was lost.
    #[error("database is unreachable")]
    Disconnected(#[source] BoxError),
    /// The database understood and refused; the same call would be refused again.
    #[error("database refused the statement")]
    Refused(#[source] BoxError),
    /// A stored value is not what we wrote.
    #[error("stored {what} is not valid")]
    Corrupt {
        /// What was read.
        what: &'static str,
    },
    /// The database would break the promise that a 2xx is on disk.
    #[error("{0}")]
    Unsafe(String),
    /// Another server runs on this file.
    #[error("{0}")]
    InUse(String),
    /// The schema is not one that this program can work with.
    #[error("{0}")]
    Schema(String),
}

impl StoreError {
    /// True when the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Disconnected(_))
    }

    /// True when nothing can be written in this transaction: on a standby, or after somebody's own word.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Disconnected(cause) => cause.is::<ReadOnly>(),
            _ => false,
        }
    }

    /// The whole chain of causes in one line, for a log.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl From<Injected> for StoreError {
    fn from(injected: Injected) -> Self {
        Self::Disconnected(Box::new(injected))
    }
}

/// Nothing can be written in this transaction.
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
#[derive(Debug, thiserror::Error)]
#[error("only reading is allowed")]
pub(crate) struct ReadOnly(#[source] pub(crate) BoxError);
