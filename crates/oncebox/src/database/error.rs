//! What can go wrong with the database, by what a caller can do about it. The driver's error is kept as source.

use crate::delivery::handler_error::chain;
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

    /// True when a commit was refused in words, by a database that is there: a rule of the application's own may say the same
    /// every time.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn was_answered(&self) -> bool {
        match self {
            Self::Busy(_) => true,
            #[cfg(feature = "postgres")]
            Self::Disconnected(cause) => {
                cause.downcast_ref::<tokio_postgres::Error>().is_some_and(|error| error.code().is_some())
            }
            _ => false,
        }
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

    /// True when what the session had prepared is gone or out of date: another session does not know of it.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn is_stale(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Disconnected(cause) => cause.is::<Stale>(),
            _ => false,
        }
    }

    /// True when the session was at work and is of no use any more; another one may be.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn is_session_lost(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Disconnected(cause) => {
                let was_at_work = cause.is::<tokio_postgres::Error>() || cause.is::<tokio::time::error::Elapsed>();
                was_at_work || self.is_stale() || self.is_read_only()
            }
            _ => false,
        }
    }

    /// True when no word came from the server: a deadline, or a connection that ended by itself.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_silence(&self) -> bool {
        let Self::Disconnected(cause) = self else { return false };
        let ended = cause.downcast_ref::<tokio_postgres::Error>().is_some_and(|error| error.code().is_none());
        ended || cause.is::<tokio::time::error::Elapsed>()
    }

    /// The whole chain of causes in one line, for a log.
    pub fn chain(&self) -> String {
        chain(self)
    }

    /// What the database said, with its code, where it said anything; never a statement's values.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn said(&self) -> String {
        #[cfg(feature = "postgres")]
        if let Self::Busy(cause) | Self::Disconnected(cause) | Self::Refused(cause) = self
            && let Some(said) = cause.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.as_db_error())
        {
            return format!("{} ({})", said.message(), said.code().code());
        }
        self.chain()
    }

    /// As [`StoreError::chain`], without the general words at its beginning.
    #[cfg(feature = "postgres")]
    pub(crate) fn reason(&self) -> String {
        std::error::Error::source(self).map_or_else(|| self.to_string(), chain)
    }
}

impl From<Injected> for StoreError {
    fn from(injected: Injected) -> Self {
        Self::Disconnected(Box::new(injected))
    }
}

#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
#[derive(Debug, thiserror::Error)]
#[error("only reading is allowed")]
pub(crate) struct ReadOnly(#[source] pub(crate) BoxError);

#[cfg(feature = "tokio-postgres")]
#[derive(Debug, thiserror::Error)]
#[error("what the session had prepared is gone or out of date")]
pub(crate) struct Stale(#[source] pub(crate) BoxError);
