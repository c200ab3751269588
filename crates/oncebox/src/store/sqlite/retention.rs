//! Retention on SQLite: single rows by their keys inside one short transaction, and freed pages given back in slices.

use rusqlite::{Connection, params};

use crate::event::{DeliveryKey, EventKey, Key};
use crate::store::StoreError;
use crate::store::retention::Trail;
use crate::store::retention::log::{Removed, TABLES};
use crate::store::sql::sqlite as sql;
use crate::store::sqlite::{Database, Tx, classify};

/// Pages given back in one transaction: four megabytes, a few milliseconds.
const PAGES: i64 = 1000;

impl Tx {
    pub(in crate::store) async fn remove_payloads(&mut self, keys: Vec<EventKey>) -> Result<u64, StoreError> {
        self.run(move |connection| each(connection, sql::REMOVE_PAYLOAD, &keys)).await
    }

    pub(in crate::store) async fn remove_trail(
        &mut self,
        trail: Trail,
        deliveries: Vec<DeliveryKey>,
    ) -> Result<u64, StoreError> {
        let statement = match trail {
            Trail::Attempts => sql::REMOVE_ATTEMPTS,
            Trail::Steps => sql::REMOVE_STEPS,
        };
        self.run(move |connection| each(connection, statement, &deliveries)).await
    }

    pub(in crate::store) async fn remove_events(
        &mut self,
        keys: Vec<EventKey>,
    ) -> Result<(Removed, Vec<EventKey>), StoreError> {
        self.run(move |connection| {
            let mut removed = Removed::default();
            let (gone, fingerprints) = remove_names(connection, &keys)?;
            removed.add(TABLES.repeats, fingerprints);
            let deliveries = deliveries_of(connection, &keys)?;
            removed.add(TABLES.attempts, each(connection, sql::REMOVE_ATTEMPTS, &deliveries)?);
            removed.add(TABLES.steps, each(connection, sql::REMOVE_STEPS, &deliveries)?);
            removed.add(TABLES.deliveries, each(connection, sql::REMOVE_DELIVERY, &deliveries)?);
            removed.add(TABLES.events, each(connection, sql::REMOVE_EVENT, &keys)?);
            if let (Some(first), Some(last)) = (keys.first(), keys.last()) {
                let mut statement = connection.prepare_cached(sql::REMOVE_ARRIVALS).map_err(classify)?;
                removed.add(TABLES.arrivals, statement.execute(params![first, last]).map_err(classify)? as u64);
            }
            Ok((removed, gone))
        })
        .await
    }

    /// Takes what these events are known by from both referees: the keys of the identities, and how many fingerprints.
    pub(in crate::store) async fn remove_names(
        &mut self,
        keys: Vec<EventKey>,
    ) -> Result<(Vec<EventKey>, u64), StoreError> {
        self.run(move |connection| remove_names(connection, &keys)).await
    }
}

impl Database {
    /// Only in a file that was made to give pages back; in an older one they are used again and the file stays as long.
    pub(in crate::store) async fn reclaim_space(&self) -> Result<bool, StoreError> {
        let mut tx = self.begin(crate::store::Session::Work).await?;
        let more = tx
            .run(|connection| {
                let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
                let free = number("freelist_count").map_err(classify)?;
                if free == 0 || number("auto_vacuum").map_err(classify)? != 2 {
                    return Ok(false);
                }
                let mut statement =
                    connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})")).map_err(classify)?;
                let mut rows = statement.query([]).map_err(classify)?;
                // Every step frees a page.
                while rows.next().map_err(classify)?.is_some() {}
                Ok(free > PAGES)
            })
            .await?;
        match tx.commit().await {
            crate::store::Commit::Committed => Ok(more),
            crate::store::Commit::Failed(error) | crate::store::Commit::Unknown(error) => Err(error),
        }
    }
}

fn remove_names(connection: &Connection, keys: &[EventKey]) -> Result<(Vec<EventKey>, u64), StoreError> {
    let mut gone = Vec::with_capacity(keys.len());
    for key in keys {
        // Another name of an event lies in the ledger under the event's key, too.
        let rows = each(connection, sql::REMOVE_IDENTITIES, std::slice::from_ref(key))?;
        gone.extend((0..rows).map(|_| *key));
    }
    Ok((gone, each(connection, sql::REMOVE_FINGERPRINTS, keys)?))
}

fn each<K>(connection: &Connection, statement: &str, keys: &[Key<K>]) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(statement).map_err(classify)?;
    let mut rows = 0;
    for key in keys {
        rows += statement.execute([key]).map_err(classify)? as u64;
    }
    Ok(rows)
}

fn deliveries_of(connection: &Connection, keys: &[EventKey]) -> Result<Vec<EventKey>, StoreError> {
    let mut statement = connection.prepare_cached(sql::DELIVERIES_OF_EVENT).map_err(classify)?;
    let mut deliveries = Vec::new();
    for key in keys {
        let (first, last) = key.delivery_range();
        let rows = statement.query_map(params![first, last, key], |row| row.get::<_, [u8; 16]>(0)).map_err(classify)?;
        for delivery in rows {
            deliveries.push(EventKey::from_bytes(delivery.map_err(classify)?));
        }
    }
    Ok(deliveries)
}
