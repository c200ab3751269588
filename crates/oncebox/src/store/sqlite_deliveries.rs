//! Claiming and finishing on SQLite: the writer thread is alone, so nothing needs a row lock.

use rusqlite::{Connection, params};

use super::deliveries::{Care, millis};
use super::sql::{CLAIM_SQLITE, NOTE_STEADY_CLOCK, sqlite as sql};
use super::sqlite::{Tx, classify, read_rows};
use super::{Fence, Row, StoreError, Value, Want};
use crate::clock::UnixMillis;
use crate::event::EventKey;

/// Columns of a claim.
const DUE_AT: usize = 7;
const KEY: usize = 2;

impl Tx {
    pub(super) async fn claim_deliveries(
        &mut self,
        wants: Vec<Want>,
        node: Option<EventKey>,
        care: Care,
        (now, steady): (UnixMillis, UnixMillis),
    ) -> Result<Vec<Row>, StoreError> {
        self.run(move |connection| {
            let mut claims = Vec::new();
            for want in wants {
                let limit = i64::try_from(want.limit).unwrap_or(i64::MAX);
                let values = vec![
                    Value::Text(want.handler),
                    Value::Int(limit),
                    Value::Int(millis(want.lease)),
                    node.into(),
                    Value::Int(now),
                    Value::Int(steady),
                ];
                claims.extend(read_rows(connection, CLAIM_SQLITE.with(care), values)?);
            }
            for claim in &mut claims {
                let event = read_rows(connection, sql::CLAIMED_EVENT, vec![claim.key(KEY)?.into()])?;
                let event = event.into_iter().next().ok_or(StoreError::Corrupt { what: "delivery without event" })?;
                claim.0.extend(event.0);
            }
            note_time(connection, claims.len(), steady)?;
            // RETURNING has an order of its own.
            claims.sort_by_key(|claim| (claim.int(DUE_AT).unwrap_or(0), claim.key(KEY).ok()));
            Ok(claims)
        })
        .await
    }

    pub(super) async fn finish(&mut self, fences: Vec<Fence>, now: UnixMillis) -> Result<Vec<EventKey>, StoreError> {
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
pub(super) fn note_time(connection: &Connection, claimed: usize, steady: UnixMillis) -> Result<(), StoreError> {
    if claimed == 0 {
        return Ok(());
    }
    let mut note = connection.prepare_cached(NOTE_STEADY_CLOCK.sqlite()).map_err(classify)?;
    note.execute([steady]).map(drop).map_err(classify)
}
