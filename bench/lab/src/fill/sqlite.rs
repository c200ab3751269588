//! Filling on SQLite: prepared statements, table by table, in one transaction.

use oncebox_verify::Identity;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::slice::{HEADERS, REMOTE, Slice};

/// Room for the inner pages of a large ledger, in KiB: its rows go everywhere.
const CACHE_KIB: i64 = 256 * 1024;

pub(super) fn is_known(connection: &Connection, identity: Identity) -> rusqlite::Result<bool> {
    let find = "SELECT 1 FROM oncebox_ledger WHERE identity = ?1";
    Ok(connection.query_row(find, [identity.as_bytes()], |_| Ok(())).optional()?.is_some())
}

pub(super) fn write(connection: &mut Connection, slice: &Slice) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut ledger = tx.prepare_cached(include_str!("../../sql/sqlite/fill_ledger.sql"))?;
    for (identity, key) in &slice.ledger {
        ledger.execute(params![identity.as_bytes(), key])?;
    }
    let mut event = tx.prepare_cached(include_str!("../../sql/sqlite/fill_event.sql"))?;
    let mut payload = tx.prepare_cached(include_str!("../../sql/sqlite/fill_payload.sql"))?;
    let mut delivery = tx.prepare_cached(include_str!("../../sql/sqlite/fill_delivery.sql"))?;
    for one in &slice.events {
        let (source, kind, at) = (&*one.source, &*one.event_type, one.received_at);
        event.execute(params![one.key, source, one.event_id, kind, one.body_sha256, at])?;
        if let Some(body) = &one.payload {
            payload.execute(params![one.key, REMOTE, HEADERS, body.as_ref()])?;
        }
        delivery.execute(params![one.key.of_delivery(&slice.handler), one.key, slice.handler, at, one.key])?;
    }
    drop((ledger, event, payload, delivery));
    tx.commit()
}
