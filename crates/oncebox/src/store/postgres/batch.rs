//! The batch insert on Postgres: arrays through `unnest`, one statement for many rows. Where an identity is the only referee
//! that statement is all; otherwise the referees' answers are waited for, and the rows then travel with COMMIT.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{join, try_join3};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::clock::UnixMillis;
use crate::event::{DeliveryKey, EventKey, Mark};
use crate::store::StoreError;
use crate::store::insert::arrivals::ArrivalCount;
use crate::store::insert::ledger::{NewEvent, NewRow, Owner, delivery_state};
use crate::store::insert::one_trip::{Settled, Trip};
use crate::store::postgres::{Object, Tx};
use crate::store::sql::postgres as sql;
use oncebox_verify::{Digest, Fingerprint, Identity};

impl Tx {
    pub(in crate::store) async fn claim_identities(
        &mut self,
        wanted: &[(Identity, EventKey)],
    ) -> Result<Vec<Owner>, StoreError> {
        let ids: Vec<Uuid> = wanted.iter().map(|(identity, _)| Uuid::from_bytes(*identity.as_bytes())).collect();
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

    /// Inserts the identities that nobody has and their rows, and commits: one statement outside any transaction.
    pub(in crate::store) async fn make_trip(
        self,
        trip: Trip,
        steady: Option<UnixMillis>,
    ) -> Result<Settled<Vec<Owner>>, StoreError> {
        let columns = TripColumns::of(&trip, steady);
        let asked = async |client: &Object| {
            let statement = client.prepare_cached(sql::INSERT_BATCH).await?;
            let rows = client.query(&statement, &columns.params()).await?;
            if rows.len() == trip.wanted.len() && rows.iter().all(is_fresh) {
                return Ok(None);
            }
            let mut found: HashMap<Uuid, Owner> = rows.iter().map(read_owner).collect::<Result<_, _>>()?;
            if rows.iter().any(|row| !is_fresh(row) && trip.brings(row)) {
                // Ours already: an earlier try was committed and its answer lost.
                client.query(sql::CONFIRM, &[]).await?;
            }
            let missing: Vec<Uuid> = columns.ids.iter().filter(|id| !found.contains_key(*id)).copied().collect();
            if !missing.is_empty() {
                found.extend(find_owners(client, sql::FIND_IDENTITIES, &missing).await?);
            }
            Ok(Some(found))
        };
        let found = match self.commit_at_once(asked).await? {
            Settled::Committed(found) => found,
            Settled::Unknown(error) => return Ok(Settled::Unknown(error)),
        };
        let owner = |(identity, own): &(Identity, EventKey)| match &found {
            None => Ok(Owner::Fresh),
            Some(found) => match found.get(&Uuid::from_bytes(*identity.as_bytes())) {
                Some(owner) => Ok(owner.unless_ours(*own)),
                None => Err(forgotten()),
            },
        };
        Ok(Settled::Committed(trip.wanted.iter().map(owner).collect::<Result<_, _>>()?))
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

/// The rows of a batch, decided but not yet sent.
#[derive(Debug)]
pub(in crate::store) struct Staged {
    events: Arc<[NewEvent]>,
    rows: Vec<NewRow>,
    steady: Option<UnixMillis>,
}

impl Staged {
    /// Sends the rows.
    pub(in crate::store) async fn insert(&self, client: &Object) -> Result<(), Error> {
        self.insert_with(client, async || Ok(())).await
    }

    /// Sends the rows and COMMIT together. Where a row is refused, the server answers COMMIT by rolling back, and the
    /// row's error is ours.
    pub(in crate::store) async fn insert_and_commit(&self, client: &Object) -> Result<(), Error> {
        self.insert_with(client, async || client.batch_execute("COMMIT").await).await
    }

    async fn insert_with(&self, client: &Object, last: impl AsyncFnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let (events, rows) = (&self.events[..], &self.rows[..]);
        let event = EventColumns::of(events, rows);
        let payload = PayloadColumns::of(events, rows);
        let delivery = DeliveryColumns { steady: self.steady, ..DeliveryColumns::of(events, rows) };
        // Prepared before anything is sent: a statement that had to be prepared first would come after COMMIT.
        let insert_events = client.prepare_cached(sql::INSERT_EVENTS).await?;
        let insert_payloads = client.prepare_cached(sql::INSERT_PAYLOADS).await?;
        let insert_deliveries = client.prepare_cached(sql::INSERT_DELIVERIES).await?;
        let (event, payload, delivery) = (event.params(), payload.params(), delivery.params());
        let mut inserts = pin!(try_join3(
            client.execute(&insert_events, &event),
            client.execute(&insert_payloads, &payload),
            client.execute(&insert_deliveries, &delivery),
        ));
        // The first poll sends all three; one that could not even be sent must not be followed by COMMIT.
        if let Poll::Ready(outcome) = poll_fn(|cx| Poll::Ready(inserts.as_mut().poll(cx))).await {
            outcome?;
            return last().await;
        }
        let (inserted, ended) = join(inserts, last()).await;
        inserted.map(drop).and(ended)
    }
}

/// It was there when we inserted and is gone now: somebody forgot it in between.
fn forgotten() -> StoreError {
    StoreError::Busy("an identity was forgotten at this very moment".into())
}

async fn find_owners(client: &Object, find: &str, ids: &[Uuid]) -> Result<HashMap<Uuid, Owner>, Error> {
    let statement = client.prepare_cached(find).await?;
    let rows = client.query(&statement, &[&ids]).await?;
    rows.iter().map(read_owner).collect()
}

/// Whether a row of `insert_batch.sql` was inserted by it.
fn is_fresh(row: &tokio_postgres::Row) -> bool {
    row.get(3)
}

impl Trip {
    /// Whether an identity belongs to the very event that we bring.
    fn brings(&self, row: &tokio_postgres::Row) -> bool {
        let (identity, key): (Uuid, Uuid) = (row.get(0), row.get(1));
        let at = self.wanted.binary_search_by(|(wanted, _)| wanted.as_bytes().cmp(identity.as_bytes()));
        at.is_ok_and(|at| self.wanted[at].1.as_bytes() == key.as_bytes())
    }
}

fn read_owner(row: &tokio_postgres::Row) -> Result<(Uuid, Owner), Error> {
    let key = EventKey::from_bytes(row.try_get::<_, Uuid>(1)?.into_bytes());
    let bytes: Option<&[u8]> = if row.len() > 2 { row.try_get(2)? } else { None };
    let body_sha256 = bytes.and_then(|bytes| Digest::try_from(bytes).ok());
    Ok((row.try_get(0)?, Owner::Known { key, body_sha256 }))
}

type Params<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// What `insert_batch.sql` is given.
struct TripColumns<'a> {
    ids: Vec<Uuid>,
    event: EventColumns<'a>,
    payload: PayloadColumns<'a>,
    delivery: DeliveryColumns<'a>,
}

impl<'a> TripColumns<'a> {
    fn of(trip: &'a Trip, steady: Option<UnixMillis>) -> Self {
        let (events, rows) = (&trip.events[..], &trip.rows[..]);
        Self {
            ids: trip.wanted.iter().map(|(identity, _)| Uuid::from_bytes(*identity.as_bytes())).collect(),
            event: EventColumns::of(events, rows),
            payload: PayloadColumns::of(events, rows),
            delivery: DeliveryColumns { steady, ..DeliveryColumns::of(events, rows) },
        }
    }

    fn params(&self) -> Params<'_> {
        let Self { ids, event, payload, delivery } = self;
        vec![
            ids,
            &event.keys,
            &event.sources,
            &event.event_ids,
            &event.types,
            &event.identities,
            &event.digests,
            &event.states,
            &event.reasons,
            &event.received,
            &payload.remotes,
            &payload.headers,
            &payload.bodies,
            &delivery.keys,
            &delivery.deliveries,
            &delivery.handlers,
            &delivery.states,
            &delivery.order_keys,
            &delivery.steady,
        ]
    }
}

#[derive(Default)]
struct EventColumns<'a> {
    keys: Vec<EventKey>,
    sources: Vec<&'a str>,
    event_ids: Vec<&'a str>,
    types: Vec<&'a str>,
    identities: Vec<&'a str>,
    digests: Vec<&'a [u8]>,
    states: Vec<&'a str>,
    reasons: Vec<Option<&'a str>>,
    originals: Vec<Option<EventKey>>,
    received: Vec<i64>,
}

impl<'a> EventColumns<'a> {
    fn of(events: &'a [NewEvent], rows: &[NewRow]) -> Self {
        let mut columns = Self::default();
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
            columns.originals.push(row.original);
            columns.received.push(new.received_at);
        }
        columns
    }

    fn params(&self) -> Params<'_> {
        vec![
            &self.keys,
            &self.sources,
            &self.event_ids,
            &self.types,
            &self.identities,
            &self.digests,
            &self.states,
            &self.reasons,
            &self.originals,
            &self.received,
        ]
    }
}

#[derive(Default)]
struct PayloadColumns<'a> {
    keys: Vec<EventKey>,
    remotes: Vec<&'a str>,
    headers: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> PayloadColumns<'a> {
    fn of(events: &'a [NewEvent], rows: &[NewRow]) -> Self {
        let mut columns = Self::default();
        for new in rows.iter().map(|row| &events[row.index]) {
            columns.keys.push(new.key);
            columns.remotes.push(&new.remote);
            columns.headers.push(&new.headers);
            columns.bodies.push(&new.event.body);
        }
        columns
    }

    fn params(&self) -> Params<'_> {
        vec![&self.keys, &self.remotes, &self.headers, &self.bodies]
    }
}

#[derive(Default)]
struct DeliveryColumns<'a> {
    deliveries: Vec<DeliveryKey>,
    keys: Vec<EventKey>,
    handlers: Vec<&'a str>,
    states: Vec<&'a str>,
    order_keys: Vec<Option<Mark>>,
    steady: Option<UnixMillis>,
}

impl<'a> DeliveryColumns<'a> {
    fn of(events: &'a [NewEvent], rows: &[NewRow]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            let Some(state) = delivery_state(row.state) else { continue };
            let new = &events[row.index];
            for delivery in &new.handlers {
                columns.deliveries.push(new.key.of_delivery(&delivery.handler));
                columns.keys.push(new.key);
                columns.handlers.push(&delivery.handler);
                columns.states.push(state);
                columns.order_keys.push(delivery.order_key);
            }
        }
        columns
    }

    fn params(&self) -> Params<'_> {
        vec![&self.deliveries, &self.keys, &self.handlers, &self.states, &self.order_keys, &self.steady]
    }
}
