//! Claiming and marking messages on SQLite: the writer thread is alone, so nothing needs a row lock.

use bytes::Bytes;
use rusqlite::params;

use super::deliveries::millis;
use super::sql::sqlite as sql;
use super::sqlite::{Tx, classify, read_rows};
use super::{MessageWant, Row, Sent, StoreError, Value};
use crate::clock::UnixMillis;
use crate::event::EventKey;

impl Tx {
    pub(super) async fn claim_messages(
        &mut self,
        wants: Vec<MessageWant>,
        node: Option<EventKey>,
        now: UnixMillis,
    ) -> Result<Vec<Row>, StoreError> {
        self.run(move |connection| {
            let mut claims = Vec::new();
            for want in wants {
                let limit = i64::try_from(want.limit).unwrap_or(i64::MAX);
                let values = vec![
                    Value::Text(want.destination),
                    Value::Int(limit),
                    Value::Int(millis(want.lease)),
                    node.into(),
                    Value::Int(now),
                    Value::Int(i64::try_from(want.bytes).unwrap_or(i64::MAX)),
                ];
                claims.extend(read_rows(connection, sql::CLAIM_MESSAGES, values)?);
            }
            Ok(claims)
        })
        .await
    }

    pub(super) async fn sent(&mut self, marks: Vec<Sent>, now: UnixMillis) -> Result<Vec<EventKey>, StoreError> {
        self.run(move |connection| {
            let mut mark = connection.prepare_cached(sql::SENT).map_err(classify)?;
            let mut done = Vec::with_capacity(marks.len());
            for Sent { fence, status, .. } in marks {
                if mark.execute(params![fence.id, fence.token, status, now]).map_err(classify)? == 1 {
                    done.push(fence.id);
                }
            }
            Ok(done)
        })
        .await
    }

    pub(super) async fn keep_answers(
        &mut self,
        answers: Vec<(EventKey, Bytes)>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        self.run(move |connection| {
            let mut keep = connection.prepare_cached(sql::KEEP_ANSWER).map_err(classify)?;
            for (id, body) in answers {
                keep.execute(params![id, now, body.as_ref()]).map_err(classify)?;
            }
            Ok(())
        })
        .await
    }
}
