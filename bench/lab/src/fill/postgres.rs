//! Filling on Postgres: COPY, table by table, in one transaction.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::event::{EventKey, Identity};
use crate::store::StoreError;
use crate::store::filler::{HEADERS, REMOTE, Slice};
use crate::store::postgres::{Database, Object, Tx, classify};
use crate::store::sql::postgres as sql;

/// How long a slice may take on a slow disk.
const SLICE_WAIT: Duration = Duration::from_secs(10 * 60);
/// A lease that a worker would have taken.
const LEASE_MS: i64 = 60_000;

impl Tx {
    pub(in crate::store) async fn fill(&mut self, slice: &Slice) -> Result<(), StoreError> {
        self.step_within(SLICE_WAIT, async |client| {
            client.batch_execute("SET LOCAL statement_timeout = 0").await?;
            ledger(client, slice).await?;
            events(client, slice).await?;
            payloads(client, slice).await?;
            deliveries(client, slice).await
        })
        .await
    }
}

impl Database {
    pub(in crate::store) async fn ledger_keys(
        &self,
        identities: &[Identity],
    ) -> Result<Vec<Option<EventKey>>, StoreError> {
        let ids: Vec<Uuid> = identities.iter().map(|identity| Uuid::from_bytes(*identity.as_bytes())).collect();
        let client = self.lone_reader().await?;
        let rows = client.query(sql::LEDGER_KEYS, &[&ids]).await.map_err(classify)?;
        let mut keys = HashMap::with_capacity(rows.len());
        for row in rows {
            let (identity, key): (Uuid, Uuid) = (row.try_get(0).map_err(classify)?, row.try_get(1).map_err(classify)?);
            keys.insert(identity, EventKey::from_bytes(key.into_bytes()));
        }
        Ok(ids.iter().map(|id| keys.get(id).copied()).collect())
    }
}

async fn ledger(client: &Object, slice: &Slice) -> Result<(), Error> {
    let mut rows = pin!(copy(client, sql::FILL_LEDGER, &[Type::UUID, Type::UUID]).await?);
    for (identity, key) in &slice.ledger {
        rows.as_mut().write(&[&Uuid::from_bytes(*identity.as_bytes()), key]).await?;
    }
    end(rows).await
}

async fn events(client: &Object, slice: &Slice) -> Result<(), Error> {
    const TEXT: Type = Type::TEXT;
    let kinds = [Type::UUID, TEXT, TEXT, TEXT, TEXT, Type::BYTEA, TEXT, Type::INT8];
    let mut rows = pin!(copy(client, sql::FILL_EVENTS, &kinds).await?);
    for event in &slice.events {
        let digest = &event.body_sha256[..];
        let (source, kind) = (&*event.source, &*event.event_type);
        rows.as_mut()
            .write(&[&event.key, &source, &event.event_id, &kind, &"id", &digest, &"accepted", &event.received_at])
            .await?;
    }
    end(rows).await
}

async fn payloads(client: &Object, slice: &Slice) -> Result<(), Error> {
    let kinds = [Type::UUID, Type::TEXT, Type::BYTEA, Type::BYTEA];
    let mut rows = pin!(copy(client, sql::FILL_PAYLOADS, &kinds).await?);
    for event in &slice.events {
        if let Some(body) = &event.payload {
            rows.as_mut().write(&[&event.key, &REMOTE, &HEADERS, &&body[..]]).await?;
        }
    }
    end(rows).await
}

async fn deliveries(client: &Object, slice: &Slice) -> Result<(), Error> {
    const INT8: Type = Type::INT8;
    let kinds = [Type::UUID, Type::UUID, Type::TEXT, Type::TEXT, INT8, INT8, Type::UUID, INT8, INT8, INT8];
    let mut rows = pin!(copy(client, sql::FILL_DELIVERIES, &kinds).await?);
    for event in &slice.events {
        let (at, lease) = (event.received_at, event.received_at + LEASE_MS);
        let delivery = event.key.of_delivery(&slice.handler);
        rows.as_mut()
            .write(&[&delivery, &event.key, &slice.handler, &"done", &1_i64, &at, &event.key, &lease, &at, &at])
            .await?;
    }
    end(rows).await
}

async fn copy(client: &Object, statement: &str, kinds: &[Type]) -> Result<BinaryCopyInWriter, Error> {
    Ok(BinaryCopyInWriter::new(client.copy_in(statement).await?, kinds))
}

async fn end(rows: Pin<&mut BinaryCopyInWriter>) -> Result<(), Error> {
    rows.finish().await.map(drop)
}
