//! Counting arrivals after the first, beside the event record and in batches.

use super::{Commit, Store, StoreError, Value, sql};
use crate::clock::UnixMillis;
use crate::event::EventKey;

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
        let mut tx = self.begin().await?;
        for one in counts {
            let recent: String = one.recent.iter().map(|(at, remote)| format!("{at} {remote}\n")).collect();
            let values = vec![one.key.into(), one.count.into(), one.last_at.into(), Value::Text(recent)];
            tx.execute(&sql::ADD_ARRIVALS, values).await?;
        }
        match tx.commit().await {
            Commit::Committed => Ok(()),
            Commit::Failed(error) | Commit::Unknown(error) => Err(error),
        }
    }
}

/// Reads the kept lines; the last one may have been cut.
pub(super) fn parse_recent(text: &str) -> Vec<(UnixMillis, String)> {
    text.split_inclusive('\n')
        .filter_map(|line| {
            let (at, remote) = line.strip_suffix('\n')?.split_once(' ')?;
            Some((at.parse().ok()?, remote.to_owned()))
        })
        .collect()
}
