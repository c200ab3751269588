//! Claiming and marking messages on Postgres: one statement for many rows, by the database's clock.

use futures_util::future::join;
use tokio_postgres::types::ToSql;

use crate::clock::UnixMillis;
use crate::event::{LeaseToken, MessageKey, NodeKey};
use crate::store::handling::deliveries::millis;
use crate::store::postgres::{Tx, by_index, classify, read_row};
use crate::store::sql::postgres as sql;
use crate::store::{MessageWant, Row, Sent, StoreError};

impl Tx {
    pub(in crate::store) async fn claim_messages(
        &mut self,
        wants: &[MessageWant],
        node: Option<NodeKey>,
        steady: Option<UnixMillis>,
    ) -> Result<Vec<Row>, StoreError> {
        let destinations: Vec<&str> = wants.iter().map(|want| want.destination.as_str()).collect();
        let limits: Vec<i64> = wants.iter().map(|want| i64::try_from(want.limit).unwrap_or(i64::MAX)).collect();
        let bytes: Vec<i64> = wants.iter().map(|want| i64::try_from(want.bytes).unwrap_or(i64::MAX)).collect();
        let leases: Vec<i64> = wants.iter().map(|want| millis(want.lease)).collect();
        let rows = self
            .step(async |client| {
                let lock = client.prepare_cached(sql::LOCK_DESTINATIONS).await?;
                let statement = client.prepare_cached(sql::CLAIM_MESSAGES).await?;
                let values: [&(dyn ToSql + Sync); 6] = [&destinations, &limits, &leases, &node, &bytes, &steady];
                // The driver sends in the order of the first polls, so this costs no round trip.
                let (locked, rows) =
                    join(client.query(&lock, &[&destinations]), by_index(client, client.query(&statement, &values)))
                        .await;
                locked.and(rows)
            })
            .await?;
        rows.iter().map(read_row).collect()
    }

    pub(in crate::store) async fn sent(&mut self, marks: &[Sent]) -> Result<Vec<MessageKey>, StoreError> {
        let ids: Vec<MessageKey> = marks.iter().map(|mark| mark.fence.id).collect();
        let tokens: Vec<LeaseToken> = marks.iter().map(|mark| mark.fence.token).collect();
        let statuses: Vec<i64> = marks.iter().map(|mark| i64::from(mark.status)).collect();
        let answers: Vec<&[u8]> = marks.iter().map(|mark| mark.answer.as_ref()).collect();
        let rows = self
            .step(async |client| {
                let statement = client.prepare_cached(sql::SENT).await?;
                by_index(client, client.query(&statement, &[&ids, &tokens, &statuses, &answers])).await
            })
            .await?;
        let id = |row: &tokio_postgres::Row| {
            row.try_get::<_, uuid::Uuid>(0).map(|id| MessageKey::from_bytes(id.into_bytes())).map_err(classify)
        };
        rows.iter().map(id).collect()
    }
}
