//! Claiming and finishing on Postgres: one statement for many rows, by the database's clock.

use super::deliveries::{Care, millis};
use super::postgres::{Tx, by_index, classify, read_row};
use super::sql::{CLAIM_POSTGRES, postgres as sql};
use super::{Fence, Row, StoreError, Want};
use crate::clock::UnixMillis;
use crate::event::EventKey;

impl Tx {
    pub(super) async fn claim_deliveries(
        &mut self,
        wants: &[Want],
        node: Option<EventKey>,
        care: Care,
        steady: Option<UnixMillis>,
    ) -> Result<Vec<Row>, StoreError> {
        let handlers: Vec<&str> = wants.iter().map(|want| want.handler.as_str()).collect();
        let limits: Vec<i64> = wants.iter().map(|want| i64::try_from(want.limit).unwrap_or(i64::MAX)).collect();
        let leases: Vec<i64> = wants.iter().map(|want| millis(want.lease)).collect();
        let rows = self
            .step(async |client| {
                let statement = client.prepare_cached(CLAIM_POSTGRES.with(care)).await?;
                by_index(client, client.query(&statement, &[&handlers, &limits, &leases, &node, &steady])).await
            })
            .await;
        match rows {
            Ok(rows) => rows.iter().map(read_row).collect(),
            // Another node claimed within the same order key at this very instant.
            Err(StoreError::Refused(error)) if is_taken(error.as_ref()) => Err(StoreError::Busy(error)),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn finish(&mut self, fences: &[Fence]) -> Result<Vec<EventKey>, StoreError> {
        let deliveries: Vec<EventKey> = fences.iter().map(|fence| fence.delivery).collect();
        let tokens: Vec<EventKey> = fences.iter().map(|fence| fence.token).collect();
        let rows = self
            .step(async |client| {
                let statement = client.prepare_cached(sql::FINISH).await?;
                by_index(client, client.query(&statement, &[&deliveries, &tokens])).await
            })
            .await?;
        let key = |row: &tokio_postgres::Row| {
            row.try_get::<_, uuid::Uuid>(0).map(|key| EventKey::from_bytes(key.into_bytes())).map_err(classify)
        };
        rows.iter().map(key).collect()
    }
}

fn is_taken(error: &(dyn std::error::Error + 'static)) -> bool {
    let code = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    code == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}
