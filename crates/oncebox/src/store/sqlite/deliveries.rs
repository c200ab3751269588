//! Claiming and finishing on SQLite: the writer thread is alone, so nothing needs a row lock.

use rusqlite::{Connection, params};

use crate::clock::UnixMillis;
use crate::database::sql::UNCLAIM_ONE;
use crate::event::{DeliveryKey, DeliveryKind, EventKind, LeaseKind, NodeKey};
use crate::store::handling::deliveries::{ClaimedRows, LossFilter, millis};
use crate::store::sql::{CLAIM_SQLITE, NOTE_STEADY_CLOCK, sqlite as sql};
use crate::store::sqlite::{Tx, classify, read_rows};
use crate::store::{Fence, Row, StoreError, Value, Want};

/// Columns of a claim.
const DUE_AT: usize = 7;
const KEY: usize = 2;
const HANDLER: usize = 3;
const STATE: usize = 4;

impl Tx {
    pub(in crate::store) async fn claim_deliveries(
        &mut self,
        wants: Vec<Want>,
        node: Option<NodeKey>,
        filter: LossFilter,
        (now, steady): (UnixMillis, UnixMillis),
    ) -> Result<ClaimedRows, StoreError> {
        self.run(move |connection| {
            let mut claims = ClaimedRows::default();
            for want in wants {
                let (limit, bytes) = (i64::try_from(want.limit).unwrap_or(i64::MAX), want.bytes);
                let values = vec![
                    Value::Text(want.handler),
                    Value::Int(limit),
                    Value::Int(millis(want.lease)),
                    node.into(),
                    Value::Int(now),
                    Value::Int(steady),
                ];
                let mut rows = read_rows(connection, CLAIM_SQLITE.with(filter), values)?;
                // RETURNING has an order of its own.
                rows.sort_by_key(|row| (row.int(DUE_AT).unwrap_or(0), row.key::<EventKind>(KEY).ok()));
                let event = if want.payload { sql::CLAIMED_EVENT } else { sql::CLAIMED_EVENT_WITHOUT_PAYLOAD };
                add_events(connection, event, rows, bytes, &mut claims)?;
            }
            note_time(connection, claims.rows.len(), steady)?;
            claims.rows.sort_by_key(|row| (row.int(DUE_AT).unwrap_or(0), row.key::<EventKind>(KEY).ok()));
            Ok(claims)
        })
        .await
    }

    pub(in crate::store) async fn finish(
        &mut self,
        fences: Vec<Fence>,
        now: UnixMillis,
    ) -> Result<Vec<DeliveryKey>, StoreError> {
        self.run(move |connection| {
            let mut finish = connection.prepare_cached(sql::FINISH).map_err(classify)?;
            let mut done = Vec::with_capacity(fences.len());
            for fence in fences {
                if finish.execute(params![fence.delivery, fence.token, now]).map_err(classify)? == 1 {
                    done.push(fence.delivery);
                }
            }
            Ok(done)
        })
        .await
    }
}

/// How far the time came, with a claim that is written anyway: no later start goes back behind it.
pub(in crate::store) fn note_time(
    connection: &Connection,
    claimed: usize,
    steady: UnixMillis,
) -> Result<(), StoreError> {
    if claimed == 0 {
        return Ok(());
    }
    let mut note = connection.prepare_cached(NOTE_STEADY_CLOCK.sqlite()).map_err(classify)?;
    note.execute([steady]).map(drop).map_err(classify)
}

/// The columns of the event behind those of the claim, as far as the bytes go; what is beyond them is put back.
fn add_events(
    connection: &Connection,
    event_of: &str,
    rows: Vec<Row>,
    bytes: usize,
    claims: &mut ClaimedRows,
) -> Result<(), StoreError> {
    let mut unclaim = connection.prepare_cached(UNCLAIM_ONE.sqlite()).map_err(classify)?;
    let mut read = 0;
    for mut row in rows {
        let is_dead = row.text(STATE)? == "dead";
        if read >= bytes && !is_dead {
            unclaim.execute(params![row.key::<DeliveryKind>(0)?, row.key::<LeaseKind>(1)?]).map_err(classify)?;
            claims.cut_off.insert(row.text(HANDLER)?);
            continue;
        }
        let event = read_rows(connection, event_of, vec![row.key::<EventKind>(KEY)?.into()])?;
        let event = event.into_iter().next().ok_or(StoreError::Corrupt { what: "delivery without event" })?;
        row.0.extend(event.0);
        if let (false, Some(Value::Bytes(body))) = (is_dead, row.0.last()) {
            read += body.len();
        }
        claims.rows.push(row);
    }
    Ok(())
}
