//! The batch insert on SQLite: prepared single-row statements, one job on the writer thread for each step.

use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::StoreError;
use super::arrivals::ArrivalCount;
use super::events::{NewEvent, NewRow, Owner, delivery_state};
use super::sql::sqlite as sql;
use super::sqlite::{Tx, classify};
use crate::event::{Digest, EventKey, Fingerprint, Identity};

impl Tx {
    pub(super) async fn claim_identities(
        &mut self,
        wanted: Vec<(Identity, EventKey)>,
    ) -> Result<Vec<Owner>, StoreError> {
        self.run(move |connection| {
            let mut claim = prepare(connection, sql::CLAIM_IDENTITY)?;
            let mut find = prepare(connection, sql::FIND_IDENTITY)?;
            let owner = |(identity, key): (Identity, EventKey)| {
                if claim.execute(params![identity.as_bytes(), key]).map_err(classify)? == 1 {
                    return Ok(Owner::Fresh);
                }
                find.query_row([identity.as_bytes()], |row| Ok((row.get(0)?, row.get::<_, Option<Digest>>(1)?)))
                    .map(|(key, body_sha256)| Owner::Known { key: EventKey::from_bytes(key), body_sha256 })
                    .map_err(classify)
            };
            wanted.into_iter().map(owner).collect()
        })
        .await
    }

    pub(super) async fn claim_fingerprints(
        &mut self,
        wanted: Vec<(Fingerprint, EventKey)>,
    ) -> Result<Vec<Owner>, StoreError> {
        self.run(move |connection| {
            let mut claim = prepare(connection, sql::CLAIM_FINGERPRINT)?;
            let mut find = prepare(connection, sql::FIND_FINGERPRINT)?;
            let owner = |(fingerprint, key): (Fingerprint, EventKey)| {
                if claim.execute(params![fingerprint.as_bytes(), key]).map_err(classify)? == 1 {
                    return Ok(Owner::Fresh);
                }
                find.query_row([fingerprint.as_bytes()], |row| row.get(0))
                    .optional()
                    .map_err(classify)?
                    .map(|key| Owner::Known { key: EventKey::from_bytes(key), body_sha256: None })
                    .ok_or(StoreError::Corrupt { what: "fingerprint" })
            };
            wanted.into_iter().map(owner).collect()
        })
        .await
    }

    pub(super) async fn add_arrivals(&mut self, counts: Vec<ArrivalCount>) -> Result<(), StoreError> {
        self.run(move |connection| {
            let mut add = prepare(connection, sql::ADD_ARRIVALS)?;
            for one in counts {
                add.execute(params![one.key, one.count, one.last_at, one.recent_lines()]).map_err(classify)?;
            }
            Ok(())
        })
        .await
    }

    pub(super) async fn write_rows(&mut self, events: Arc<[NewEvent]>, rows: Vec<NewRow>) -> Result<(), StoreError> {
        self.run_last(move |connection| {
            let mut event = prepare(connection, sql::INSERT_EVENT)?;
            let mut payload = prepare(connection, sql::INSERT_PAYLOAD)?;
            let mut delivery = prepare(connection, sql::INSERT_DELIVERY)?;
            for row in rows {
                write_row(&mut event, &mut payload, &mut delivery, &events[row.index], &row).map_err(classify)?;
            }
            Ok(())
        })
        .await
    }
}

fn write_row(
    event: &mut CachedStatement<'_>,
    payload: &mut CachedStatement<'_>,
    delivery: &mut CachedStatement<'_>,
    new: &NewEvent,
    row: &NewRow,
) -> rusqlite::Result<()> {
    event.execute(params![
        new.key,
        new.source,
        new.event.event_id,
        new.event.event_type,
        new.event.identity_kind.as_str(),
        new.event.body_sha256,
        row.state.as_str(),
        row.reason,
        row.original,
        new.received_at,
    ])?;
    payload.execute(params![new.key, new.remote, new.headers.as_ref(), new.event.body.as_ref()])?;
    if let Some(state) = delivery_state(row.state) {
        for duty in &new.handlers {
            let (key, handler) = (new.key.of_delivery(&duty.handler), &duty.handler);
            delivery.execute(params![key, new.key, handler, state, new.received_at, duty.order_key])?;
        }
    }
    Ok(())
}

fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>, StoreError> {
    connection.prepare_cached(sql).map_err(classify)
}
