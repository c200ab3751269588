//! Claiming and marking messages on SQLite: the writer thread is alone, so nothing needs a row lock.

use ring::rand::{SecureRandom as _, SystemRandom};
use rusqlite::{Connection, params};

use crate::clock::UnixMillis;
use crate::event::{LeaseToken, MessageKey, NodeKey};
use crate::store::handling::deliveries::millis;
use crate::store::sql::{KEEP_ANSWER, sqlite as sql};
use crate::store::sqlite::deliveries::note_time;
use crate::store::sqlite::{Tx, classify, read_row};
use crate::store::{MessageWant, Row, Sent, StoreError};

impl Tx {
    pub(in crate::store) async fn claim_messages(
        &mut self,
        wants: Vec<MessageWant>,
        node: Option<NodeKey>,
        (now, steady): (UnixMillis, UnixMillis),
    ) -> Result<Vec<Row>, StoreError> {
        let mut token = [0; 16];
        SystemRandom::new().fill(&mut token).map_err(|_error| StoreError::Refused("there is no randomness".into()))?;
        let token = LeaseToken::from_bytes(token);
        self.run(move |connection| {
            let mut claims = Vec::new();
            for want in &wants {
                let rows = claimable(connection, want, token, steady)?;
                let mut claim = connection.prepare_cached(sql::CLAIM_MESSAGE).map_err(classify)?;
                for row in &rows {
                    let (state, attempt) = (row.text(3)?, row.int(4)?);
                    let id: MessageKey = row.key(0)?;
                    let values = params![id, state, attempt, token, node, now, millis(want.lease), steady];
                    claim.execute(values).map_err(classify)?;
                }
                claims.extend(rows);
            }
            note_time(connection, claims.len(), steady)?;
            Ok(claims)
        })
        .await
    }

    pub(in crate::store) async fn sent(
        &mut self,
        marks: Vec<Sent>,
        now: UnixMillis,
    ) -> Result<Vec<MessageKey>, StoreError> {
        self.run(move |connection| {
            let mut mark = connection.prepare_cached(sql::SENT).map_err(classify)?;
            let mut keep = connection.prepare_cached(KEEP_ANSWER.sqlite()).map_err(classify)?;
            let mut done = Vec::with_capacity(marks.len());
            for Sent { fence, status, answer } in marks {
                if mark.execute(params![fence.id, fence.token, status, now]).map_err(classify)? == 1 {
                    done.push(fence.id);
                }
                if !answer.is_empty() {
                    keep.execute(params![fence.id, now, answer.as_ref()]).map_err(classify)?;
                }
            }
            Ok(done)
        })
        .await
    }
}

/// What a want may take: read no further than its bytes go.
fn claimable(
    connection: &Connection,
    want: &MessageWant,
    token: LeaseToken,
    steady: UnixMillis,
) -> Result<Vec<Row>, StoreError> {
    let limit = i64::try_from(want.limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(sql::CLAIM_MESSAGES).map_err(classify)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params![want.destination, limit, steady, token]).map_err(classify)?;
    let (mut claimable, mut bytes) = (Vec::new(), 0);
    while bytes < want.bytes
        && let Some(row) = rows.next().map_err(classify)?
    {
        bytes += row.get_ref(11).ok().and_then(|body| body.as_blob().ok()).map_or(0, <[u8]>::len);
        claimable.push(read_row(row, columns).map_err(classify)?);
    }
    Ok(claimable)
}
