//! Counting arrivals after the first, beside the event record and in batches.

use crate::clock::UnixMillis;
use crate::event::EventKey;
use crate::store::{Commit, Store, StoreError, Tx, TxInner};

/// What to add to one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalCount {
    /// The event.
    pub key: EventKey,
    /// How many more.
    pub count: i64,
    /// The latest of them.
    pub last_at: UnixMillis,
    /// The latest few, newest first.
    pub recent: Vec<(UnixMillis, String)>,
}

impl Store {
    /// Adds counts in one transaction. They are a record for people, not a referee: a lost count loses nothing else.
    pub async fn add_arrivals(&self, counts: &[ArrivalCount]) -> Result<(), StoreError> {
        let mut counts = counts.to_vec();
        // Sorted, as everything that two nodes may write at once.
        counts.sort_by_key(|one| one.key);
        let mut tx = self.begin().await?;
        tx.add_arrivals(counts).await?;
        match tx.commit().await {
            Commit::Committed => Ok(()),
            Commit::Failed(error) | Commit::Unknown(error) => Err(error),
        }
    }
}

impl Tx {
    async fn add_arrivals(&mut self, counts: Vec<ArrivalCount>) -> Result<(), StoreError> {
        self.faults.at("arrivals.add").await?;
        by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.add_arrivals(counts).await,
            TxInner::Postgres(tx) => tx.add_arrivals(&counts).await,
        )
    }
}

impl ArrivalCount {
    /// The latest arrivals as they are kept: a line each, newest first.
    pub(in crate::store) fn recent_lines(&self) -> String {
        self.recent.iter().map(|(at, remote)| format!("{at} {remote}\n")).collect()
    }
}

/// Reads the kept lines; the last one may have been cut.
pub(in crate::store) fn parse_recent(text: &str) -> Vec<(UnixMillis, String)> {
    text.split_inclusive('\n')
        .filter_map(|line| {
            let (at, remote) = line.strip_suffix('\n')?.split_once(' ')?;
            Some((at.parse().ok()?, remote.to_owned()))
        })
        .collect()
}
