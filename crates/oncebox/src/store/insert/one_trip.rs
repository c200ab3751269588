//! A batch in one round trip: the identities, the rows of those that are new, and the commit.
//!
//! For events whose only referee is their identity. It can be repeated with the same events: a key is made for one event,
//! so where ours stands, the row is ours. What contradicts an event that is known goes through [`insert_events`] afterwards.

use std::sync::Arc;

use crate::event::EventKey;
use crate::store::insert::ledger::{Batch, Inserted, NewEvent, NewRow, Owner, insert_events};
use crate::store::{Commit, Database, Session, Store, StoreError};
use oncebox_verify::Identity;

/// A commit that is answered, or whose result is unknown.
#[derive(Debug)]
pub enum Settled<T> {
    /// On disk.
    Committed(T),
    /// Perhaps on disk.
    Unknown(StoreError),
}

/// What one round trip brings to the database.
#[derive(Debug)]
pub(in crate::store) struct Trip {
    pub(in crate::store) events: Arc<[NewEvent]>,
    pub(in crate::store) wanted: Vec<(Identity, EventKey)>,
    /// One for each identity, in the same order.
    pub(in crate::store) rows: Vec<NewRow>,
}

impl NewEvent {
    /// True when nothing but its identity decides whether it is new.
    pub(crate) fn has_one_referee(&self) -> bool {
        self.event.fingerprint.is_none()
    }
}

impl Store {
    /// Inserts a batch and commits. Outcomes come in the order of the events.
    pub async fn insert(&self, events: &Arc<[NewEvent]>) -> Result<Settled<Vec<Inserted>>, StoreError> {
        if events.iter().all(NewEvent::has_one_referee) {
            self.insert_in_one_trip(events).await
        } else {
            self.insert_in_transaction(events).await
        }
    }

    async fn insert_in_transaction(&self, events: &Arc<[NewEvent]>) -> Result<Settled<Vec<Inserted>>, StoreError> {
        let mut tx = self.begin_ingest().await?;
        let outcomes = insert_events(&mut tx, events).await?;
        settled(tx.commit().await, outcomes)
    }

    async fn insert_in_one_trip(&self, events: &Arc<[NewEvent]>) -> Result<Settled<Vec<Inserted>>, StoreError> {
        for point in ["store.begin", "events.referee", "events.write", "events.written"] {
            self.faults.at(point).await?;
        }
        let mut batch = Batch::new(events);
        let trip = Trip { events: events.clone(), wanted: batch.identities_wanted(), rows: batch.rows_if_new() };
        batch.owners = match self.make_trip(trip).await? {
            Settled::Committed(owners) => owners,
            Settled::Unknown(error) => return Ok(Settled::Unknown(error)),
        };
        batch.settle_identities();
        let contradicting = batch.contradicting();
        if !contradicting.is_empty() {
            let again = contradicting.iter().map(|index| events[*index].clone()).collect();
            let outcomes = match self.insert_in_transaction(&again).await? {
                Settled::Committed(outcomes) => outcomes,
                Settled::Unknown(error) => return Ok(Settled::Unknown(error)),
            };
            contradicting.into_iter().zip(outcomes).for_each(|(index, outcome)| batch.outcomes[index] = Some(outcome));
        }
        Ok(Settled::Committed(batch.outcomes()?))
    }

    async fn make_trip(&self, trip: Trip) -> Result<Settled<Vec<Owner>>, StoreError> {
        assert!(trip.wanted.is_sorted(), "keys reach the database sorted, or two nodes deadlock");
        let count = trip.wanted.len();
        if let Err(injected) = self.faults.at("store.commit").await {
            return settled(Commit::from_fault(injected), Vec::new());
        }
        let owners = by_database!(&self.database,
            Database::Sqlite(database) => database.begin(Session::Ingest).await?.make_trip(trip, self.steady.clone()).await?,
            Database::Postgres(database) => database.begin(Session::Ingest).await?.make_trip(trip, self.steady.now()).await?,
        );
        if let Err(injected) = self.faults.at("store.committed").await {
            return settled(Commit::from_fault(injected), Vec::new());
        }
        if let Settled::Committed(owners) = &owners {
            assert_eq!(owners.len(), count, "one owner for each identity");
        }
        Ok(owners)
    }
}

/// What a commit means for whoever waits for a value.
pub(in crate::store) fn settled<T>(commit: Commit, value: T) -> Result<Settled<T>, StoreError> {
    match commit {
        Commit::Committed => Ok(Settled::Committed(value)),
        Commit::Failed(error) => Err(error),
        Commit::Unknown(error) => Ok(Settled::Unknown(error)),
    }
}
