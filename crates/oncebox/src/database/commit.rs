//! The three answers of a commit.

use super::StoreError;
use crate::fault::Injected;

/// What became of a transaction.
#[derive(Debug)]
pub enum Commit {
    /// It is on disk.
    Committed,
    /// It is certainly not there.
    Failed(StoreError),
    /// Nobody knows: the connection was lost, or the flush failed, while the commit was under way.
    Unknown(StoreError),
}

impl Commit {
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "only our own store has fault points")
    )]
    pub(crate) fn from_fault(injected: Injected) -> Self {
        match injected {
            Injected::Fail => Self::Failed(injected.into()),
            Injected::Unknown => Self::Unknown(injected.into()),
        }
    }
}
