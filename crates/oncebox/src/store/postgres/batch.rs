//! The batch insert on Postgres: arrays through `unnest`, one statement for many rows. Where an identity is the only referee
//! that statement is all; otherwise the referees' answers are waited for, and the rows then travel with COMMIT.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::future::join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::clock::UnixMillis;
use crate::database::sql::CONFIRM;
use crate::event::{DeliveryKey, EventKey, Mark};
use crate::store::insert::arrivals::ArrivalCount;
use crate::store::insert::ledger::{NewEvent, NewRow, Owner, delivery_state};
use crate::store::insert::one_trip::{Settled, Trip};
use crate::store::postgres::{Object, Tx, classify};
use crate::store::sql::postgres as sql;
use crate::store::{Durability, StoreError};
use oncebox_verify::{Digest, Fingerprint, Identity};

impl Tx {
    pub(in crate::store) async fn claim_identities(
        &mut self,
        wanted: &[(Identity, EventKey)],
    ) -> Result<Vec<Owner>, StoreError> {
        let ids: Vec<Uuid> = wanted.iter().map(|(identity, _)| uuid_of(identity)).collect();
        let keys: Vec<EventKey> = wanted.iter().map(|(_, key)| *key).collect();
        self.claim(sql::CLAIM_IDENTITIES, sql::FIND_IDENTITIES, &ids, &keys).await
    }

    pub(in crate::store) async fn claim_fingerprints(
        &mut self,
        wanted: &[(Fingerprint, EventKey)],
    ) -> Result<Vec<Owner>, StoreError> {
        let ids: Vec<Uuid> = wanted.iter().map(|(print, _)| Uuid::from_bytes(*print.as_bytes())).collect();
        let keys: Vec<EventKey> = wanted.iter().map(|(_, key)| *key).collect();
        self.claim(sql::CLAIM_FINGERPRINTS, sql::FIND_FINGERPRINTS, &ids, &keys).await
    }

    /// Inserts what nobody has, then looks up who has the rest.
    async fn claim(
        &mut self,
        insert: &str,
        find: &str,
        ids: &[Uuid],
        keys: &[EventKey],
    ) -> Result<Vec<Owner>, StoreError> {
        let fresh: HashSet<Uuid> = self
            .guarded_step(async |client| {
                let statement = client.prepare_cached(insert).await?;
                let rows = client.query(&statement, &[&ids, &keys]).await?;
                rows.iter().map(|row| row.try_get(0)).collect()
            })
            .await?;
        let missing: Vec<Uuid> = ids.iter().filter(|id| !fresh.contains(id)).copied().collect();
        let known = if missing.is_empty() { HashMap::new() } else { self.find(find, &missing).await? };
        let owner = |id: &Uuid| match known.get(id) {
            _ if fresh.contains(id) => Ok(Owner::Fresh),
            Some(owner) => Ok(*owner),
            None => Err(forgotten()),
        };
        ids.iter().map(owner).collect()
    }

    async fn find(&mut self, find: &str, ids: &[Uuid]) -> Result<HashMap<Uuid, Owner>, StoreError> {
        self.step(async |client| find_owners(client, find, ids).await).await
    }

    /// Inserts the identities that nobody has and their rows, and commits: one statement outside any transaction. Where most
    /// are known, one that only reads goes before it, and what it finds does not travel.
    pub(in crate::store) async fn make_trip(
        self,
        trip: Trip,
        steady: Option<UnixMillis>,
    ) -> Result<Settled<Vec<Owner>>, StoreError> {
        let must_be_confirmed = self.durability() == Durability::Failover;
        let all: Vec<Uuid> = trip.wanted.iter().map(|(identity, _)| uuid_of(identity)).collect();
        let mostly_known = self.mostly_known();
        let look_first = mostly_known.get();
        let asked = async |client: &Object| {
            let mut answers = match look_first {
                true => ask(client, sql::FIND_KNOWN, &[&all]).await?,
                false => Vec::new(),
            };
            let left = left_of(&all, &answers);
            let rows: Vec<NewRow> = left.iter().map(|at| trip.rows[*at]).collect();
            let ids: Vec<Uuid> = left.iter().map(|at| all[*at]).collect();
            let columns = Columns::of(&trip.events, &rows, steady);
            answers.extend(match ids.as_slice() {
                [] => Vec::new(),
                [id] => ask(client, sql::INSERT_ONE, &columns.of_one_behind(id)).await?,
                _ => ask(client, sql::INSERT_BATCH, &columns.behind(&ids)).await?,
            });
            if answers.len() < all.len() {
                let missing: Vec<Uuid> = left_of(&all, &answers).into_iter().map(|at| all[at]).collect();
                answers.extend(ask(client, sql::FIND_KNOWN, &[&missing]).await?);
            }
            Ok(answers)
        };
        let answers = match self.commit_at_once(asked).await? {
            Settled::Committed(answers) => answers,
            Settled::Unknown(error) => return Ok(Settled::Unknown(error)),
        };
        if must_be_confirmed && !answers.iter().all(is_confirmed) {
            return Err(unconfirmed());
        }
        mostly_known.note(answers.iter().filter(|row| is_fresh(row)).count(), all.len());
        if answers.len() == all.len() && answers.iter().all(is_fresh) {
            return Ok(Settled::Committed(vec![Owner::Fresh; all.len()]));
        }
        let found: HashMap<Uuid, Owner> = answers.iter().map(read_owner).collect::<Result<_, _>>().map_err(classify)?;
        let owner = |(id, (_, own)): (&Uuid, &(Identity, EventKey))| match found.get(id) {
            Some(owner) => Ok(owner.unless_ours(*own)),
            None => Err(forgotten()),
        };
        Ok(Settled::Committed(all.iter().zip(&trip.wanted).map(owner).collect::<Result<_, _>>()?))
    }

    /// Makes the commit wait for the standby where nothing was written, and looks whether there is one where it must.
    pub(in crate::store) async fn confirm(&mut self, writes_nothing: bool) -> Result<(), StoreError> {
        let must_be_confirmed = self.durability() == Durability::Failover;
        if !writes_nothing && !must_be_confirmed {
            return Ok(());
        }
        let answer = self.step(async |client| ask(client, CONFIRM, &[]).await).await?;
        let is_confirmed = answer.first().is_some_and(|row| row.get(0));
        if must_be_confirmed && !is_confirmed { Err(unconfirmed()) } else { Ok(()) }
    }

    pub(in crate::store) async fn add_arrivals(&mut self, counts: &[ArrivalCount]) -> Result<(), StoreError> {
        let keys: Vec<EventKey> = counts.iter().map(|one| one.key).collect();
        let numbers: Vec<i64> = counts.iter().map(|one| one.count).collect();
        let times: Vec<i64> = counts.iter().map(|one| one.last_at).collect();
        let recent: Vec<String> = counts.iter().map(ArrivalCount::recent_lines).collect();
        self.step(async |client| {
            let statement = client.prepare_cached(sql::ADD_ARRIVALS).await?;
            client.execute(&statement, &[&keys, &numbers, &times, &recent]).await.map(drop)
        })
        .await
    }

    pub(in crate::store) async fn stage_rows(
        &mut self,
        events: Arc<[NewEvent]>,
        rows: Vec<NewRow>,
        steady: Option<UnixMillis>,
    ) -> Result<(), StoreError> {
        self.stage(Staged { events, rows, steady }).await
    }
}

/// Whether most of the last batch was known: a storm of duplicates goes on for a while. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct MostlyKnown(Arc<AtomicBool>);

impl MostlyKnown {
    /// As many identities at least tell what kind of batch comes next.
    const TELLING: usize = 4;

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self, fresh: usize, all: usize) {
        if all >= Self::TELLING {
            self.0.store(fresh * 4 <= all, Ordering::Relaxed);
        }
    }
}

/// The rows of a batch, decided but not yet sent.
#[derive(Debug)]
pub(in crate::store) struct Staged {
    events: Arc<[NewEvent]>,
    rows: Vec<NewRow>,
    steady: Option<UnixMillis>,
}

impl Staged {
    pub(in crate::store) async fn insert(&self, client: &Object) -> Result<(), Error> {
        self.insert_with(client, async || Ok(())).await
    }

    /// Sends the rows and COMMIT together. Where a row is refused, the server answers COMMIT by rolling back, and the
    /// row's error is ours.
    pub(in crate::store) async fn insert_and_commit(&self, client: &Object) -> Result<(), Error> {
        self.insert_with(client, async || client.batch_execute("COMMIT").await).await
    }

    async fn insert_with(&self, client: &Object, last: impl AsyncFnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let columns = Columns::of(&self.events, &self.rows, self.steady);
        let originals: Vec<Option<EventKey>> = self.rows.iter().map(|row| row.original).collect();
        // Prepared before anything is sent: a statement that had to be prepared first would come after COMMIT.
        let statement = client.prepare_cached(sql::INSERT_ROWS).await?;
        let values = columns.behind(&originals);
        let mut insert = pin!(client.execute(&statement, &values));
        // The first poll sends it; one that could not even be sent must not be followed by COMMIT.
        if let Poll::Ready(outcome) = poll_fn(|cx| Poll::Ready(insert.as_mut().poll(cx))).await {
            outcome?;
            return last().await;
        }
        let (inserted, ended) = join(insert, last()).await;
        inserted.map(drop).and(ended)
    }
}

fn unconfirmed() -> StoreError {
    StoreError::Disconnected("no standby confirms commits any more".into())
}

/// It was there when we inserted and is gone now: somebody forgot it in between.
fn forgotten() -> StoreError {
    StoreError::Busy("an identity was forgotten at this very moment".into())
}

async fn ask(client: &Object, statement: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
    let statement = client.prepare_cached(statement).await?;
    client.query(&statement, values).await
}

async fn find_owners(client: &Object, find: &str, ids: &[Uuid]) -> Result<HashMap<Uuid, Owner>, Error> {
    let rows = ask(client, find, &[&ids]).await?;
    rows.iter().map(read_owner).collect()
}

/// Whether a row of an answer was inserted by the question.
fn is_fresh(row: &Row) -> bool {
    row.get(3)
}

/// Whether a standby had to confirm what was answered.
fn is_confirmed(row: &Row) -> bool {
    row.get(4)
}

/// The places of those that no answer speaks of.
fn left_of(all: &[Uuid], answers: &[Row]) -> Vec<usize> {
    let answered: HashSet<Uuid> = answers.iter().map(|row| row.get(0)).collect();
    (0..all.len()).filter(|at| !answered.contains(&all[*at])).collect()
}

fn uuid_of(identity: &Identity) -> Uuid {
    Uuid::from_bytes(*identity.as_bytes())
}

fn read_owner(row: &Row) -> Result<(Uuid, Owner), Error> {
    let key = EventKey::from_bytes(row.try_get::<_, Uuid>(1)?.into_bytes());
    let bytes: Option<&[u8]> = if row.len() > 2 { row.try_get(2)? } else { None };
    let body_sha256 = bytes.and_then(|bytes| Digest::try_from(bytes).ok());
    Ok((row.try_get(0)?, Owner::Known { key, body_sha256 }))
}

/// What the statements of a batch are given, a column each.
#[derive(Default)]
struct Columns<'a> {
    keys: Vec<EventKey>,
    sources: Vec<&'a str>,
    event_ids: Vec<&'a str>,
    types: Vec<&'a str>,
    identities: Vec<&'a str>,
    digests: Vec<&'a [u8]>,
    states: Vec<&'a str>,
    reasons: Vec<Option<&'a str>>,
    received: Vec<i64>,
    remotes: Vec<&'a str>,
    headers: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
    delivered_keys: Vec<EventKey>,
    deliveries: Vec<DeliveryKey>,
    handlers: Vec<&'a str>,
    delivery_states: Vec<&'a str>,
    order_keys: Vec<Option<Mark>>,
    steady: Option<UnixMillis>,
}

impl<'a> Columns<'a> {
    fn of(events: &'a [NewEvent], rows: &[NewRow], steady: Option<UnixMillis>) -> Self {
        let mut columns = Self { steady, ..Self::default() };
        for row in rows {
            let new = &events[row.index];
            columns.keys.push(new.key);
            columns.sources.push(&new.source);
            columns.event_ids.push(&new.event.event_id);
            columns.types.push(&new.event.event_type);
            columns.identities.push(new.event.identity_kind.as_str());
            columns.digests.push(&new.event.body_sha256);
            columns.states.push(row.state.as_str());
            columns.reasons.push(row.reason);
            columns.received.push(new.received_at);
            columns.remotes.push(&new.remote);
            columns.headers.push(&new.headers);
            columns.bodies.push(&new.event.body);
            for (state, delivery) in
                delivery_state(row.state).into_iter().flat_map(|state| new.handlers.iter().map(move |to| (state, to)))
            {
                columns.delivered_keys.push(new.key);
                columns.deliveries.push(new.key.of_delivery(&delivery.handler));
                columns.handlers.push(&delivery.handler);
                columns.delivery_states.push(state);
                columns.order_keys.push(delivery.order_key);
            }
        }
        columns
    }

    /// Behind the one column that the two statements do not share.
    fn behind<'p>(&'p self, first: &'p (dyn ToSql + Sync)) -> [&'p (dyn ToSql + Sync); 19] {
        [
            first,
            &self.keys,
            &self.sources,
            &self.event_ids,
            &self.types,
            &self.identities,
            &self.digests,
            &self.states,
            &self.reasons,
            &self.received,
            &self.remotes,
            &self.headers,
            &self.bodies,
            &self.delivered_keys,
            &self.deliveries,
            &self.handlers,
            &self.delivery_states,
            &self.order_keys,
            &self.steady,
        ]
    }

    /// The same for a single event: its own values, and its deliveries as columns.
    fn of_one_behind<'p>(&'p self, first: &'p (dyn ToSql + Sync)) -> [&'p (dyn ToSql + Sync); 19] {
        let mut values = self.behind(first);
        values[1..13].copy_from_slice(&[
            &self.keys[0],
            &self.sources[0],
            &self.event_ids[0],
            &self.types[0],
            &self.identities[0],
            &self.digests[0],
            &self.states[0],
            &self.reasons[0],
            &self.received[0],
            &self.remotes[0],
            &self.headers[0],
            &self.bodies[0],
        ]);
        values
    }
}

#[cfg(test)]
mod tests {
    use super::MostlyKnown;

    #[test]
    fn a_batch_of_duplicates_is_followed_by_a_look_and_a_few_tell_nothing() {
        let mostly = MostlyKnown::default();
        let after = |fresh: usize, all: usize| {
            mostly.note(fresh, all);
            mostly.get()
        };
        assert!(!after(0, 3));
        assert!(after(1, 4));
        assert!(after(3, 3));
        assert!(!after(2, 4));
    }
}
