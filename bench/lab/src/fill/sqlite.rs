//! Filling on SQLite: prepared statements, table by table, in one transaction.

use rusqlite::{Connection, OptionalExtension, params};

use crate::event::{EventKey, Identity};
use crate::store::StoreError;
use crate::store::filler::{HEADERS, REMOTE, Slice};
use crate::store::sql::sqlite as sql;
use crate::store::sqlite::{Database, Tx, classify};

/// Room for the inner pages of a large ledger, in KiB: its rows go everywhere.
const CACHE_KIB: i64 = 256 * 1024;

impl Tx {
    pub(in crate::store) async fn fill(&mut self, slice: Slice) -> Result<(), StoreError> {
        self.run(move |connection| write(connection, &slice).map_err(classify)).await
    }
}

impl Database {
    pub(in crate::store) async fn ledger_keys(
        &self,
        identities: Vec<Identity>,
    ) -> Result<Vec<Option<EventKey>>, StoreError> {
        self.on_lone_reader(move |connection| {
            let mut find = connection.prepare(sql::LEDGER_KEY).map_err(classify)?;
            let mut key = |identity: Identity| {
                let key = find.query_row([identity.as_bytes()], |row| row.get(0)).optional().map_err(classify)?;
                Ok(key.map(EventKey::from_bytes))
            };
            identities.into_iter().map(&mut key).collect()
        })
        .await
    }
}

fn write(connection: &Connection, slice: &Slice) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    let mut ledger = connection.prepare_cached(sql::CLAIM_IDENTITY)?;
    for (identity, key) in &slice.ledger {
        ledger.execute(params![identity.as_bytes(), key])?;
    }
    let mut event = connection.prepare_cached(sql::INSERT_EVENT)?;
    let mut payload = connection.prepare_cached(sql::INSERT_PAYLOAD)?;
    let mut delivery = connection.prepare_cached(sql::FILL_DELIVERY)?;
    let nothing = None::<&str>;
    for one in &slice.events {
        let (source, kind, at) = (&*one.source, &*one.event_type, one.received_at);
        event.execute(params![
            one.key,
            source,
            one.event_id,
            kind,
            "id",
            one.body_sha256,
            "accepted",
            nothing,
            nothing,
            at
        ])?;
        if let Some(body) = &one.payload {
            payload.execute(params![one.key, REMOTE, HEADERS, body.as_ref()])?;
        }
        delivery.execute(params![one.key.of_delivery(&slice.handler), one.key, slice.handler, at, one.key])?;
    }
    Ok(())
}
