//! Claiming and finishing on Postgres: one statement for many rows, by the database's clock.

use tokio_postgres::types::ToSql;

use crate::clock::UnixMillis;
use crate::event::{DeliveryKey, DeliveryKind, LeaseKind, LeaseToken, NodeKey};
use crate::store::handling::deliveries::{ClaimedRows, LossFilter, millis};
use crate::store::postgres::{Database, Object, Tx, by_index, classify, in_time, no_connection, read_row};
use crate::store::sql::{claim_postgres, postgres as sql};
use crate::store::{Fence, StoreError, Value, Want};

/// Columns of a claim.
const HANDLER: usize = 3;
const HEADERS: usize = 15;
const BODY: usize = 16;
const FITS: usize = 17;

impl Tx {
    pub(in crate::store) async fn claim_deliveries(
        &mut self,
        wants: &[Want],
        node: Option<NodeKey>,
        filter: LossFilter,
        steady: Option<UnixMillis>,
    ) -> Result<ClaimedRows, StoreError> {
        let in_order = wants.iter().any(|want| want.in_order);
        let claim = claim_postgres(in_order, wants.iter().any(|want| want.payload));
        let handlers: Vec<&str> = wants.iter().map(|want| want.handler.as_str()).collect();
        let limits: Vec<i64> = wants.iter().map(|want| i64::try_from(want.limit).unwrap_or(i64::MAX)).collect();
        let leases: Vec<i64> = wants.iter().map(|want| millis(want.lease)).collect();
        let bytes: Vec<i64> = wants.iter().map(|want| i64::try_from(want.bytes).unwrap_or(i64::MAX)).collect();
        let rows = self
            .step(async |client| {
                let statement = client.prepare_cached(claim.with(filter)).await?;
                let values: [&(dyn ToSql + Sync); 6] = [&handlers, &limits, &leases, &node, &steady, &bytes];
                by_index(client, client.query(&statement, &values)).await
            })
            .await;
        match rows {
            Ok(rows) => self.without_excess(rows, wants).await,
            // Another node claimed within the same order key at this very instant.
            Err(StoreError::Refused(error)) if is_taken(error.as_ref()) => Err(StoreError::Busy(error)),
            Err(error) => Err(error),
        }
    }

    /// Puts back what does not fit into the bytes, and drops those that were read for others' sake.
    async fn without_excess(
        &mut self,
        rows: Vec<tokio_postgres::Row>,
        wants: &[Want],
    ) -> Result<ClaimedRows, StoreError> {
        let mut claimed = ClaimedRows::default();
        let (mut deliveries, mut tokens) = (Vec::new(), Vec::new());
        let reads_payload = |handler: &str| wants.iter().any(|want| want.payload && want.handler == handler);
        let is_mixed = wants.iter().any(|want| want.payload) && wants.iter().any(|want| !want.payload);
        for row in rows {
            let mut row = read_row(&row)?;
            if is_mixed && !reads_payload(&row.text(HANDLER)?) {
                row.0[HEADERS..=BODY].fill(Value::Bytes(Vec::new()));
            }
            if row.int(FITS)? == 0 {
                deliveries.push(row.key::<DeliveryKind>(0)?);
                tokens.push(row.key::<LeaseKind>(1)?);
                claimed.cut_off.insert(row.text(HANDLER)?);
            } else {
                claimed.rows.push(row);
            }
        }
        if !deliveries.is_empty() {
            self.step(async |client| {
                let statement = client.prepare_cached(sql::UNCLAIM).await?;
                client.execute(&statement, &[&deliveries, &tokens]).await
            })
            .await?;
        }
        Ok(claimed)
    }

    pub(in crate::store) async fn finish(&mut self, fences: &[Fence]) -> Result<Vec<DeliveryKey>, StoreError> {
        let deliveries: Vec<DeliveryKey> = fences.iter().map(|fence| fence.delivery).collect();
        let tokens: Vec<LeaseToken> = fences.iter().map(|fence| fence.token).collect();
        let rows = self
            .step(async |client| {
                let statement = client.prepare_cached(sql::FINISH).await?;
                by_index(client, client.query(&statement, &[&deliveries, &tokens])).await
            })
            .await?;
        let key = |row: &tokio_postgres::Row| {
            row.try_get::<_, uuid::Uuid>(0).map(|key| DeliveryKey::from_bytes(key.into_bytes())).map_err(classify)
        };
        rows.iter().map(key).collect()
    }
}

impl Database {
    /// One statement that is a transaction of its own.
    pub(in crate::store) async fn write_begun(
        &self,
        node: NodeKey,
        role: &str,
        marks: &[u8],
    ) -> Result<(), StoreError> {
        let client = self.pool().get().await.map_err(no_connection)?;
        let written = in_time(async {
            let statement = client.prepare_cached(sql::WRITE_BEGUN).await.map_err(classify)?;
            client.execute(&statement, &[&node, &role, &marks]).await.map_err(classify)
        })
        .await;
        if written.is_err() {
            // Perhaps it still runs there.
            drop(Object::take(client));
        }
        written.map(drop)
    }
}

fn is_taken(error: &(dyn std::error::Error + 'static)) -> bool {
    let code = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    code == Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION)
}
