//! Filling on Postgres: COPY, table by table, in one transaction.

use std::pin::{Pin, pin};

use oncebox_verify::Identity;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Transaction};
use uuid::Uuid;

use super::slice::{HEADERS, REMOTE, Slice};

/// A lease that a worker would have taken.
const LEASE_MS: i64 = 60_000;

pub(super) async fn is_known(client: &Client, identity: Identity) -> Result<bool, Error> {
    let find = "SELECT 1 FROM oncebox.ledger WHERE identity = $1";
    Ok(client.query_opt(find, &[&Uuid::from_bytes(*identity.as_bytes())]).await?.is_some())
}

pub(super) async fn write(client: &mut Client, slice: &Slice) -> Result<(), Error> {
    let tx = client.transaction().await?;
    ledger(&tx, slice).await?;
    events(&tx, slice).await?;
    payloads(&tx, slice).await?;
    deliveries(&tx, slice).await?;
    tx.commit().await
}

async fn ledger(tx: &Transaction<'_>, slice: &Slice) -> Result<(), Error> {
    let mut rows = pin!(copy(tx, include_str!("../../sql/postgres/fill_ledger.sql"), &[Type::UUID, Type::UUID]).await?);
    for (identity, key) in &slice.ledger {
        rows.as_mut().write(&[&Uuid::from_bytes(*identity.as_bytes()), key]).await?;
    }
    end(rows).await
}

async fn events(tx: &Transaction<'_>, slice: &Slice) -> Result<(), Error> {
    const TEXT: Type = Type::TEXT;
    let kinds = [Type::UUID, TEXT, TEXT, TEXT, TEXT, Type::BYTEA, TEXT, Type::INT8];
    let mut rows = pin!(copy(tx, include_str!("../../sql/postgres/fill_events.sql"), &kinds).await?);
    for event in &slice.events {
        let digest = &event.body_sha256[..];
        let (source, kind) = (&*event.source, &*event.event_type);
        rows.as_mut()
            .write(&[&event.key, &source, &event.event_id, &kind, &"id", &digest, &"accepted", &event.received_at])
            .await?;
    }
    end(rows).await
}

async fn payloads(tx: &Transaction<'_>, slice: &Slice) -> Result<(), Error> {
    let kinds = [Type::UUID, Type::TEXT, Type::BYTEA, Type::BYTEA];
    let mut rows = pin!(copy(tx, include_str!("../../sql/postgres/fill_payloads.sql"), &kinds).await?);
    for event in &slice.events {
        if let Some(body) = &event.payload {
            rows.as_mut().write(&[&event.key, &REMOTE, &HEADERS, &&body[..]]).await?;
        }
    }
    end(rows).await
}

async fn deliveries(tx: &Transaction<'_>, slice: &Slice) -> Result<(), Error> {
    const INT8: Type = Type::INT8;
    let kinds = [Type::UUID, Type::UUID, Type::TEXT, Type::TEXT, INT8, INT8, Type::UUID, INT8, INT8, INT8];
    let mut rows = pin!(copy(tx, include_str!("../../sql/postgres/fill_deliveries.sql"), &kinds).await?);
    for event in &slice.events {
        let (at, lease) = (event.received_at, event.received_at + LEASE_MS);
        let delivery = event.key.of_delivery(&slice.handler);
        rows.as_mut()
            .write(&[&delivery, &event.key, &slice.handler, &"done", &1_i64, &at, &event.key, &lease, &at, &at])
            .await?;
    }
    end(rows).await
}

async fn copy(tx: &Transaction<'_>, statement: &str, kinds: &[Type]) -> Result<BinaryCopyInWriter, Error> {
    Ok(BinaryCopyInWriter::new(tx.copy_in(statement).await?, kinds))
}

async fn end(rows: Pin<&mut BinaryCopyInWriter>) -> Result<(), Error> {
    rows.finish().await.map(drop)
}
