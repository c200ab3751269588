//! The batch insert on SQLite: few statements of many rows, one job on the writer thread for each step.

use std::sync::{Arc, LazyLock};

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use tokio::sync::oneshot;

use crate::database::steady::Steady;
use crate::delivery::routing::NewDelivery;
use crate::event::EventKey;
use crate::store::StoreError;
use crate::store::insert::arrivals::ArrivalCount;
use crate::store::insert::ledger::{NewEvent, NewRow, Owner, delivery_state};
use crate::store::insert::one_trip::{Settled, Trip, settled};
use crate::store::sql::sqlite as sql;
use crate::store::sqlite::multi_row::{Insert, Values};
use crate::store::sqlite::{Tx, classify};
use oncebox_verify::{Digest, Fingerprint, Identity};

static CLAIM_IDENTITIES: LazyLock<Insert> = LazyLock::new(|| Insert::of(sql::CLAIM_IDENTITY));
static CLAIM_FINGERPRINTS: LazyLock<Insert> = LazyLock::new(|| Insert::of(sql::CLAIM_FINGERPRINT));
static INSERT_EVENTS: LazyLock<Insert> = LazyLock::new(|| Insert::of(sql::INSERT_EVENT));
static INSERT_PAYLOADS: LazyLock<Insert> = LazyLock::new(|| Insert::of(sql::INSERT_PAYLOAD));
static INSERT_DELIVERIES: LazyLock<Insert> = LazyLock::new(|| Insert::of(sql::INSERT_DELIVERY));

impl Tx {
    pub(in crate::store) async fn claim_identities(
        &mut self,
        wanted: Vec<(Identity, EventKey)>,
    ) -> Result<Vec<Owner>, StoreError> {
        self.run(move |connection| claim_identities(connection, wanted)).await
    }

    /// Inserts the identities that nobody has and their rows, and commits: one hand-over to the writer thread.
    pub(in crate::store) async fn make_trip(
        mut self,
        trip: Trip,
        steady: Steady,
    ) -> Result<Settled<Vec<Owner>>, StoreError> {
        let (tell, told) = oneshot::channel();
        self.keep_for_commit(move |connection| {
            let Trip { events, wanted, rows } = trip;
            let owners = claim_identities(connection, wanted)?;
            let is_new = |(_, owner): &(NewRow, &Owner)| **owner == Owner::Fresh;
            let new: Vec<NewRow> = rows.iter().copied().zip(&owners).filter(is_new).map(|(row, _)| row).collect();
            write(connection, &events, &new, &steady).map_err(classify)?;
            let own = |(owner, row): (Owner, &NewRow)| owner.unless_ours(events[row.index].key);
            // Nobody waits only when the caller was dropped.
            let _ = tell.send(owners.into_iter().zip(&rows).map(own).collect());
            Ok(())
        })
        .await?;
        let committed = self.commit().await;
        settled(committed, told.await.unwrap_or_default())
    }

    pub(in crate::store) async fn claim_fingerprints(
        &mut self,
        wanted: Vec<(Fingerprint, EventKey)>,
    ) -> Result<Vec<Owner>, StoreError> {
        let wanted = wanted.into_iter().map(|(fingerprint, key)| (*fingerprint.as_bytes(), key)).collect();
        let read = |row: &Row<'_>| {
            let key = EventKey::from_bytes(row.get(0)?);
            Ok(Owner::Known { key, body_sha256: None })
        };
        self.run(move |connection| claim(connection, &CLAIM_FINGERPRINTS, sql::FIND_FINGERPRINT, wanted, read)).await
    }

    /// What is seen is on disk, and there is no other.
    pub(in crate::store) async fn confirm(&mut self, _writes_nothing: bool) -> Result<(), StoreError> {
        Ok(())
    }

    pub(in crate::store) async fn add_arrivals(&mut self, counts: Vec<ArrivalCount>) -> Result<(), StoreError> {
        self.run(move |connection| {
            let mut add = prepare(connection, sql::ADD_ARRIVALS)?;
            for one in counts {
                add.execute(params![one.key, one.count, one.last_at, one.recent_lines()]).map_err(classify)?;
            }
            Ok(())
        })
        .await
    }

    pub(in crate::store) async fn stage_rows(
        &mut self,
        events: Arc<[NewEvent]>,
        rows: Vec<NewRow>,
        steady: Steady,
    ) -> Result<(), StoreError> {
        self.keep_for_commit(move |connection| write(connection, &events, &rows, &steady).map_err(classify)).await
    }
}

fn claim_identities(connection: &Connection, wanted: Vec<(Identity, EventKey)>) -> Result<Vec<Owner>, StoreError> {
    let wanted = wanted.into_iter().map(|(identity, key)| (*identity.as_bytes(), key)).collect();
    let read = |row: &Row<'_>| {
        let key = EventKey::from_bytes(row.get(0)?);
        Ok(Owner::Known { key, body_sha256: row.get::<_, Option<Digest>>(1)? })
    };
    claim(connection, &CLAIM_IDENTITIES, sql::FIND_IDENTITY, wanted, read)
}

/// Inserts what nobody has, then looks up who has the rest.
fn claim(
    connection: &Connection,
    insert: &Insert,
    find: &str,
    wanted: Vec<([u8; 16], EventKey)>,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<Owner>,
) -> Result<Vec<Owner>, StoreError> {
    let mut owners = Vec::with_capacity(wanted.len());
    let mut find = prepare(connection, find)?;
    let bind = |(id, key): &([u8; 16], EventKey), values: &mut Values<'_, '_>| {
        values.bind(id)?;
        values.bind(key)
    };
    let tell = |now: &[([u8; 16], EventKey)], inserted| {
        if inserted == now.len() {
            owners.extend(now.iter().map(|_| Some(Owner::Fresh)));
            return Ok(());
        }
        for (id, own) in now {
            // Ours, and no event is there yet: inserted just now.
            let owner = find.query_row([id], &read).optional()?.map(|owner| match owner {
                Owner::Known { key, body_sha256: None } if key == *own => Owner::Fresh,
                other => other,
            });
            owners.push(owner);
        }
        Ok(())
    };
    insert.run(connection, &wanted, bind, tell).map_err(classify)?;
    owners.into_iter().collect::<Option<_>>().ok_or(StoreError::Corrupt { what: "unique key" })
}

fn write(connection: &Connection, events: &[NewEvent], rows: &[NewRow], steady: &Steady) -> rusqlite::Result<()> {
    let quietly = |_: &[_], _| Ok(());
    INSERT_EVENTS.run(connection, rows, |row, values| bind_event(&events[row.index], row, values), quietly)?;
    INSERT_PAYLOADS.run(connection, rows, |row, values| bind_payload(&events[row.index], values), quietly)?;
    let deliveries: Vec<_> = rows.iter().flat_map(|row| deliveries(&events[row.index], row)).collect();
    let bind = |delivery: &Delivery<'_>, values: &mut Values<'_, '_>| bind_delivery(delivery, steady, values);
    INSERT_DELIVERIES.run(connection, &deliveries, bind, |_, _| Ok(()))
}

fn bind_event(new: &NewEvent, row: &NewRow, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    values.bind(new.key)?;
    values.bind(&new.source)?;
    values.bind(&new.event.event_id)?;
    values.bind(&new.event.event_type)?;
    values.bind(new.event.identity_kind.as_str())?;
    values.bind(new.event.body_sha256)?;
    values.bind(row.state.as_str())?;
    values.bind(row.reason)?;
    values.bind(row.original)?;
    values.bind(new.received_at)
}

fn bind_payload(new: &NewEvent, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    values.bind(new.key)?;
    values.bind(&new.remote)?;
    values.bind(new.headers.as_ref())?;
    values.bind(new.event.body.as_ref())
}

/// The deliveries of an event: in which state, and for whom.
fn deliveries<'a>(new: &'a NewEvent, row: &NewRow) -> impl Iterator<Item = Delivery<'a>> {
    let begin = move |state| new.handlers.iter().map(move |to| Delivery { new, state, to });
    delivery_state(row.state).into_iter().flat_map(begin)
}

struct Delivery<'a> {
    new: &'a NewEvent,
    state: &'static str,
    to: &'a NewDelivery,
}

fn bind_delivery(delivery: &Delivery<'_>, steady: &Steady, values: &mut Values<'_, '_>) -> rusqlite::Result<()> {
    let Delivery { new, state, to } = delivery;
    values.bind(new.key.of_delivery(&to.handler))?;
    values.bind(new.key)?;
    values.bind(&to.handler)?;
    values.bind(state)?;
    values.bind(steady.due(new.received_at))?;
    values.bind(to.order_key)
}

fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>, StoreError> {
    connection.prepare_cached(sql).map_err(classify)
}
