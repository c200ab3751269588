//! What retention asks of the database: rows in the order of their age, and their removal in short transactions.
//!
//! Nothing here decides. Whoever removes payloads looks again inside the transaction, behind a lock that everybody who
//! makes an event run again takes too, so that what came to be needed meanwhile stays.

pub(super) mod log;

use std::collections::HashSet;

use super::sql::Statement;
use super::{Database, PayloadRecord, Row, Store, StoreError, Tx, TxInner, Value, sql};
use crate::clock::UnixMillis;
use crate::database::first;
use crate::event::{DeliveryKey, EventKey, MessageKey};
use crate::store::handling::handlers::Asked;
use crate::store::retention::log::{Removed, TABLES};

/// A payload or an event, with what decides over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedRow {
    /// The event's key.
    pub key: EventKey,
    /// The event's source; none where the event itself is gone.
    pub source: Option<String>,
    /// True while the event waits for a person.
    pub held: bool,
    /// True while its bytes are there.
    pub has_payload: bool,
}

/// What a delivery left behind, with what decides over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedDelivery {
    /// The delivery.
    pub delivery: DeliveryKey,
    /// Its event and that one's source; none where it is gone.
    pub event: Option<(EventKey, String)>,
    /// True once nobody will run it any more.
    pub ended: bool,
}

/// Tables with rows that belong to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trail {
    /// Attempts.
    Attempts,
    /// Steps.
    Steps,
}

/// Tables whose rows are removed by a time of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aged {
    /// Marks of `once`, by when they were made.
    Remembered,
    /// Messages that were sent or discarded, by when they were written.
    Messages,
    /// Attempts of such messages.
    MessageAttempts,
    /// Answers to such messages.
    MessageAnswers,
    /// Applied versions, by when.
    Versions,
    /// Applied changes, by the end of their own window.
    Changes,
    /// Prerequisites that are not done and that nobody waits for, by when they were touched.
    Prerequisites,
    /// Actions that are through.
    Actions,
    /// Processes that were not seen for long.
    Nodes,
    /// The log of retention itself.
    Runs,
}

/// A node's right to run retention: one at a time. Dropping it gives it back.
#[derive(Debug)]
pub struct RetentionLock {
    #[cfg(feature = "postgres")]
    pub(super) session: Option<deadpool_postgres::ClientWrapper>,
}

impl Store {
    /// Takes the right to run retention; none while another node has it. On SQLite the file's one writer is enough.
    pub async fn lock_retention(&self) -> Result<Option<RetentionLock>, StoreError> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => Ok(Some(RetentionLock {
                #[cfg(feature = "postgres")]
                session: None,
            })),
            #[cfg(feature = "postgres")]
            Database::Postgres(database) => {
                Ok(database.lock_retention().await?.map(|session| RetentionLock { session: Some(session) }))
            }
        }
    }

    /// The next payloads in the order of their age, after one key and before another.
    pub async fn aged_payloads(
        &self,
        after: EventKey,
        before: EventKey,
        limit: i64,
    ) -> Result<Vec<AgedRow>, StoreError> {
        let rows = self.query(&sql::AGED_PAYLOADS, vec![after.into(), before.into(), limit.into()]).await?;
        rows.iter().map(|row| read_aged(row, true)).collect()
    }

    /// The next events in the order of their age, after one key and before another.
    pub async fn aged_events(&self, after: EventKey, before: EventKey, limit: i64) -> Result<Vec<AgedRow>, StoreError> {
        let rows = self.query(&sql::AGED_EVENTS, vec![after.into(), before.into(), limit.into()]).await?;
        rows.iter().map(|row| read_aged(row, row.int(3)? != 0)).collect()
    }

    /// Among events from the first key to the last, those that somebody still needs.
    pub async fn open_keys(&self, first: EventKey, last: EventKey) -> Result<HashSet<EventKey>, StoreError> {
        read_keys(&self.query(&sql::OPEN_KEYS, open_range(first, last)).await?)
    }

    /// The next deliveries that left something behind, in the order of their age.
    pub async fn aged_trail(
        &self,
        trail: Trail,
        after: DeliveryKey,
        before: DeliveryKey,
        limit: i64,
    ) -> Result<Vec<AgedDelivery>, StoreError> {
        let statement: &Statement = match trail {
            Trail::Attempts => &sql::AGED_ATTEMPTS,
            Trail::Steps => &sql::AGED_STEPS,
        };
        let rows = self.query(statement, vec![after.into(), before.into(), limit.into()]).await?;
        let read = |row: &Row| {
            let event = match (row.optional_key(1)?, row.optional_text(2)?) {
                (Some(key), Some(source)) => Some((key, source)),
                _ => None,
            };
            let state = row.optional_text(3)?;
            let ended = state.is_none_or(|state| ["done", "superseded", "discarded"].contains(&state.as_str()));
            Ok(AgedDelivery { delivery: row.key(0)?, event, ended })
        };
        rows.iter().map(read).collect()
    }

    /// Removes payloads, except those that came to be needed since they were looked at.
    pub async fn remove_payloads(&self, keys: Vec<EventKey>) -> Result<u64, StoreError> {
        let (Some(first), Some(last)) = (keys.iter().min().copied(), keys.iter().max().copied()) else { return Ok(0) };
        self.faults.at("retention.payloads").await?;
        let mut tx = self.begin().await?;
        let mut keys = by_database!(&mut tx.inner,
            // The one writer is us.
            TxInner::Sqlite(_) => keys,
            TxInner::Postgres(tx) => tx.lock_payloads(&keys).await?,
        );
        let open = read_keys(&tx.query(&sql::OPEN_KEYS, open_range(first, last)).await?)?;
        keys.retain(|key| !open.contains(key));
        let removed = by_database!(&mut tx.inner,
            TxInner::Sqlite(tx) => tx.remove_payloads(keys).await?,
            TxInner::Postgres(tx) => tx.remove_payloads(&keys).await?,
        );
        tx.commit_or_fail().await?;
        self.faults.at("retention.payloads_removed").await?;
        Ok(removed)
    }

    /// Removes events that have no payload any more, with everything that belongs to them, in one transaction: an
    /// identity never outlives its event, nor an event its identity.
    pub async fn remove_events(&self, rows: &[AgedRow]) -> Result<Removed, StoreError> {
        let mut keys: Vec<EventKey> = rows.iter().map(|row| row.key).collect();
        keys.sort_unstable();
        if keys.is_empty() {
            return Ok(Removed::default());
        }
        self.faults.at("retention.events").await?;
        let mut tx = self.begin().await?;
        let counted_to = tx.lock_counts().await?;
        // What was removed, and the keys whose identities were among it.
        let (mut removed, gone) = by_database!(&mut tx.inner,
            TxInner::Sqlite(tx) => tx.remove_events(keys).await?,
            TxInner::Postgres(tx) => tx.remove_events(&keys).await?,
        );
        removed.add(TABLES.ledger, gone.len() as u64);
        let gone: HashSet<EventKey> = gone.into_iter().filter(|key| *key < counted_to).collect();
        let counted = rows.iter().filter(|row| gone.contains(&row.key));
        tx.subtract_ledger_rows(counted.filter_map(|row| row.source.as_deref())).await?;
        tx.commit_or_fail().await?;
        self.faults.at("retention.events_removed").await?;
        Ok(removed)
    }

    /// Removes what deliveries left behind.
    pub async fn remove_trail(&self, trail: Trail, deliveries: Vec<DeliveryKey>) -> Result<u64, StoreError> {
        if deliveries.is_empty() {
            return Ok(0);
        }
        self.faults.at("retention.trail").await?;
        let mut tx = self.begin().await?;
        let removed = by_database!(&mut tx.inner,
            TxInner::Sqlite(tx) => tx.remove_trail(trail, deliveries).await?,
            TxInner::Postgres(tx) => tx.remove_trail(trail, &deliveries).await?,
        );
        tx.commit_or_fail().await.map(|()| removed)
    }

    /// Removes one slice of what is older than a time, and says how many rows that were.
    pub async fn remove_aged(&self, aged: Aged, before: UnixMillis, limit: i64) -> Result<u64, StoreError> {
        let time = match aged {
            Aged::Messages | Aged::MessageAttempts | Aged::MessageAnswers => EventKey::at(before).into(),
            _ => before.into(),
        };
        self.faults.at("retention.aged").await?;
        let values = vec![time, limit.into()];
        match aged {
            Aged::Messages => self.remove_messages(values).await,
            _ => self.write(aged.removal().1, values).await,
        }
    }

    /// A message and its contents go together.
    async fn remove_messages(&self, values: Vec<Value>) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let rows = tx.query(&sql::REMOVE_MESSAGES, values).await?;
        let ids = rows.iter().map(|row| row.key(0)).collect::<Result<Vec<MessageKey>, _>>()?;
        if let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) {
            self.faults.at("retention.messages").await?;
            tx.execute(&sql::REMOVE_MESSAGE_CONTENTS, vec![(*first).into(), (*last).into()]).await?;
        }
        tx.commit_or_fail().await.map(|()| ids.len() as u64)
    }

    /// Gives freed pages back to the file system, a few at a time, and says whether there may be more.
    pub async fn reclaim_space(&self) -> Result<bool, StoreError> {
        by_database!(&self.database,
            Database::Sqlite(database) => database.reclaim_space().await,
            // Dropped partitions are gone at once; the rest is for autovacuum.
            Database::Postgres(_) => Ok(false),
        )
    }

    /// Ends the stop that a jump of the clock caused, with a line in the audit log; false when nothing was stopped.
    pub async fn confirm_time(&self, asked: &Asked) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        if tx.execute(&sql::CONFIRM_TIME, Vec::new()).await? == 0 {
            tx.rollback().await;
            return Ok(false);
        }
        tx.log_action(asked, "confirm", r#"{"retention":"the time is right"}"#, 1).await?;
        tx.commit_or_fail().await?;
        Ok(true)
    }
}

impl Tx {
    /// Keeps an event's payload until the transaction ends; false when it is gone.
    pub(super) async fn keep_payload(&mut self, key: EventKey) -> Result<bool, StoreError> {
        Ok(!self.query(&sql::LOCK_PAYLOAD, vec![key.into()]).await?.is_empty())
    }

    /// The same, with its body.
    pub(super) async fn kept_body(&mut self, key: EventKey) -> Result<Option<Vec<u8>>, StoreError> {
        if !self.keep_payload(key).await? {
            return Ok(None);
        }
        let payload: Option<PayloadRecord> = first(&self.query(&sql::PAYLOAD_OF, vec![key.into()]).await?)?;
        Ok(payload.map(|payload| payload.body))
    }
}

impl Aged {
    /// The table's name, as the metric has it, and what removes from it.
    fn removal(self) -> (&'static str, &'static Statement) {
        match self {
            Self::Remembered => ("remembered", &sql::REMOVE_REMEMBERED),
            Self::Messages => ("outbox", &sql::REMOVE_MESSAGES),
            Self::MessageAttempts => ("outbox_attempts", &sql::REMOVE_MESSAGE_ATTEMPTS),
            Self::MessageAnswers => ("outbox_answers", &sql::REMOVE_MESSAGE_ANSWERS),
            Self::Versions => ("versions", &sql::REMOVE_VERSIONS),
            Self::Changes => ("changes", &sql::REMOVE_CHANGES),
            Self::Prerequisites => ("prerequisites", &sql::REMOVE_PREREQUISITES),
            Self::Actions => ("actions", &sql::REMOVE_ACTIONS),
            Self::Nodes => ("nodes", &sql::REMOVE_NODES),
            Self::Runs => ("retention_runs", &sql::REMOVE_RUNS),
        }
    }

    pub(crate) fn table(self) -> &'static str {
        self.removal().0
    }
}

impl Trail {
    /// The table's name, as the metric has it.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::Steps => "steps",
        }
    }
}

/// The deliveries of events from the first key to the last.
pub(super) fn delivery_span(first: EventKey, last: EventKey) -> (DeliveryKey, DeliveryKey) {
    (first.delivery_range().0, last.delivery_range().1)
}

fn open_range(first: EventKey, last: EventKey) -> Vec<Value> {
    let (from, to) = delivery_span(first, last);
    vec![from.into(), to.into()]
}

fn read_keys(rows: &[Row]) -> Result<HashSet<EventKey>, StoreError> {
    rows.iter().map(|row| row.key(0)).collect()
}

fn read_aged(row: &Row, has_payload: bool) -> Result<AgedRow, StoreError> {
    let held = row.optional_text(2)?.is_some_and(|state| state == "held");
    Ok(AgedRow { key: row.key(0)?, source: row.optional_text(1)?, held, has_payload })
}
