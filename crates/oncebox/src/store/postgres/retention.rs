//! Retention on Postgres: arrays of keys, and payloads by the day in partitions that are made ahead and dropped whole.
//!
//! A partition goes in one transaction: detached, what is still needed moved to the rest, dropped. Killed anywhere, it
//! is either all there or all gone. Everything that needs an exclusive lock waits for it a fraction of a second and then
//! gives up until the next look, so that nobody behind it waits longer.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::clock::{Countdown, UnixMillis};
use crate::event::{DeliveryKey, EventKey};
use crate::store::postgres::{Database, Object, Tx, classify, in_time, no_connection, within};
use crate::store::retention::log::{Removed, TABLES};
use crate::store::retention::{RetentionLock, Trail, delivery_span};
use crate::store::sql::postgres as sql;
use crate::store::{Database as Kind, Store, StoreError};

/// How long an exclusive lock is waited for, while everybody who comes later waits behind us.
const LOCK_WAIT: Duration = Duration::from_millis(200);
/// How long a statement under such a lock may take.
const LOCKED_MAX: Duration = Duration::from_secs(1);

/// A session that was closed holds its lock until the server has noticed; ours may be the last run's own.
const ENDING_WAIT: Duration = Duration::from_secs(1);

/// Payloads of a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The table's name.
    pub name: String,
    /// The first key that belongs to it.
    pub from: EventKey,
    /// The first key that does not.
    pub to: EventKey,
}

/// Whether what needs an exclusive lock was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusive {
    /// It was.
    Done,
    /// Others were at work, or it would have taken too long: later.
    Later,
    /// This role may not, or the table is not ours any more: rows are removed one by one instead.
    Refused,
}

impl Store {
    /// The partitions of payloads by time; none on a database without.
    pub async fn partitions(&self) -> Result<Vec<Partition>, StoreError> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(_) => Ok(Vec::new()),
            Kind::Postgres(database) => database.partitions().await,
        }
    }

    /// Makes a partition for keys from one to another; [`Exclusive::Refused`] where some of them are stored already.
    pub async fn make_partition(&self, lock: &RetentionLock, one: &Partition) -> Result<Exclusive, StoreError> {
        let Some(session) = &lock.session else { return Ok(Exclusive::Refused) };
        self.faults.at("retention.make_partition").await?;
        let stored = in_time(async { session.query_one(sql::REST_HAS, &[&one.from, &one.to]).await.map_err(classify) });
        if stored.await?.try_get::<_, bool>(0).map_err(classify)? {
            return Ok(Exclusive::Refused);
        }
        let (from, to) = (one.from.to_string(), one.to.to_string());
        let text = sql::MAKE_PARTITION.fill([&one.name, &lock_ms(), &locked_ms(), &from, &to]);
        let made = in_time(async { session.batch_execute(&text).await.map_err(classify) }).await;
        self.faults.at("retention.partition_made").await?;
        ended(session, made).await
    }

    /// Drops a partition whose payloads are over. Those of `kept`, and those that came to be needed since `looked_at` by
    /// the database's clock, move to the rest before anybody can miss them.
    pub async fn drop_partition(
        &self,
        lock: &RetentionLock,
        one: &Partition,
        kept: &[EventKey],
        looked_at: UnixMillis,
    ) -> Result<Exclusive, StoreError> {
        let Some(session) = &lock.session else { return Ok(Exclusive::Refused) };
        self.faults.at("retention.drop_partition").await?;
        let begin = sql::BEGIN_DROP.fill([&one.name, &lock_ms(), &locked_ms()]);
        let keep_payloads = sql::KEEP_PAYLOADS.fill([&one.name]);
        let dropped = within(crate::store::postgres::STEP_WAIT, async {
            session.batch_execute(&begin).await.map_err(classify)?;
            self.faults.at("retention.detached").await?;
            let since: &[&(dyn ToSql + Sync)] = &[&one.from, &one.to, &looked_at];
            let rows = session.query(sql::NEEDED_SINCE, since).await.map_err(classify)?;
            let needed: Vec<Uuid> =
                rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(classify)?;
            let mut keep: Vec<Uuid> = kept.iter().map(|key| Uuid::from_bytes(*key.as_bytes())).collect();
            keep.extend(needed);
            session.execute(&keep_payloads, &[&keep]).await.map_err(classify)?;
            self.faults.at("retention.kept").await?;
            let end = format!("DROP TABLE oncebox.{}; COMMIT", one.name);
            session.batch_execute(&end).await.map_err(classify)?;
            self.faults.at("retention.dropped").await?;
            Ok(())
        })
        .await;
        ended(session, dropped).await
    }

    /// How many bytes these payloads hold.
    pub async fn payload_bytes(&self, keys: &[EventKey]) -> Result<i64, StoreError> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(_) => Ok(0),
            Kind::Postgres(database) => {
                let client = database.lone_reader().await?;
                let row = in_time(async { client.query_one(sql::PAYLOAD_BYTES, &[&keys]).await.map_err(classify) });
                row.await?.try_get(0).map_err(classify)
            }
        }
    }

    /// Brings the summaries of the ledger's pages up to date, so that what is old is found without reading what is new.
    pub async fn summarize_ledger(&self, lock: &RetentionLock) -> Result<(), StoreError> {
        let Some(session) = &lock.session else { return Ok(()) };
        in_time(async { session.batch_execute(sql::SUMMARIZE).await.map_err(classify) }).await
    }
}

/// What became of work under an exclusive lock. The session is left outside any transaction.
async fn ended(session: &ClientWrapper, outcome: Result<(), StoreError>) -> Result<Exclusive, StoreError> {
    let Err(error) = outcome else { return Ok(Exclusive::Done) };
    if session.is_closed() {
        return Err(error);
    }
    in_time(async { session.batch_execute("ROLLBACK").await.map_err(classify) }).await?;
    match error {
        StoreError::Busy(_) => Ok(Exclusive::Later),
        StoreError::Refused(reason) => {
            tracing::debug!("a partition was refused: {reason}");
            Ok(Exclusive::Refused)
        }
        error => Err(error),
    }
}

fn lock_ms() -> String {
    LOCK_WAIT.as_millis().to_string()
}

fn locked_ms() -> String {
    LOCKED_MAX.as_millis().to_string()
}

impl Database {
    pub(in crate::store) async fn lock_retention(&self) -> Result<Option<ClientWrapper>, StoreError> {
        let client = Object::take(self.pool().get().await.map_err(no_connection)?).into_client();
        let wait = Countdown::from(ENDING_WAIT);
        loop {
            let row = in_time(async { client.query_one(sql::LOCK_RETENTION, &[]).await.map_err(classify) }).await?;
            if row.try_get::<_, bool>(0).map_err(classify)? {
                return Ok(Some(client));
            }
            if wait.left().is_zero() {
                return Ok(None);
            }
            tokio::time::sleep(ENDING_WAIT / 20).await;
        }
    }

    async fn partitions(&self) -> Result<Vec<Partition>, StoreError> {
        let client = self.lone_reader().await?;
        let rows = in_time(async { client.query(sql::PARTITIONS, &[]).await.map_err(classify) }).await?;
        let mut found = Vec::new();
        for row in rows {
            let (name, bounds): (String, String) =
                (row.try_get(0).map_err(classify)?, row.try_get(1).map_err(classify)?);
            // The rest has no bounds, and a partition of somebody else's making is not ours to drop.
            if let (Some((from, to)), true) = (read_bounds(&bounds), name.starts_with("payloads_d")) {
                found.push(Partition { name, from, to });
            }
        }
        found.sort_by_key(|one| one.from);
        Ok(found)
    }
}

/// Reads `FOR VALUES FROM ('…') TO ('…')`.
fn read_bounds(text: &str) -> Option<(EventKey, EventKey)> {
    let mut quoted = text.split('\'').skip(1).step_by(2);
    let bounds = (quoted.next()?.parse().ok()?, quoted.next()?.parse().ok()?);
    quoted.next().is_none().then_some(bounds)
}

impl Tx {
    pub(in crate::store) async fn lock_payloads(&mut self, keys: &[EventKey]) -> Result<Vec<EventKey>, StoreError> {
        self.keys(sql::LOCK_PAYLOADS, &[&keys]).await
    }

    pub(in crate::store) async fn remove_payloads(&mut self, keys: &[EventKey]) -> Result<u64, StoreError> {
        self.removed(sql::REMOVE_PAYLOADS, &[&keys]).await
    }

    pub(in crate::store) async fn remove_trail(
        &mut self,
        trail: Trail,
        deliveries: &[DeliveryKey],
    ) -> Result<u64, StoreError> {
        let statement = match trail {
            Trail::Attempts => sql::REMOVE_ATTEMPTS,
            Trail::Steps => sql::REMOVE_STEPS,
        };
        self.removed(statement, &[&deliveries]).await
    }

    pub(in crate::store) async fn remove_events(
        &mut self,
        keys: &[EventKey],
    ) -> Result<(Removed, Vec<EventKey>), StoreError> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(Default::default()) };
        let mut removed = Removed::default();
        let (gone, fingerprints) = self.remove_names(keys).await?;
        removed.add(TABLES.repeats, fingerprints);
        let (from, to) = delivery_span(*first, *last);
        let deliveries = self.keys(sql::REMOVE_DELIVERIES, &[&from, &to, &keys]).await?;
        removed.add(TABLES.deliveries, deliveries.len() as u64);
        removed.add(TABLES.attempts, self.removed(sql::REMOVE_ATTEMPTS, &[&deliveries]).await?);
        removed.add(TABLES.steps, self.removed(sql::REMOVE_STEPS, &[&deliveries]).await?);
        removed.add(TABLES.events, self.removed(sql::REMOVE_EVENTS, &[&keys]).await?);
        removed.add(TABLES.arrivals, self.removed(sql::REMOVE_ARRIVALS, &[first, last, &keys]).await?);
        Ok((removed, gone))
    }

    /// Takes what these events are known by from both referees: the keys of the identities, and how many fingerprints.
    pub(in crate::store) async fn remove_names(
        &mut self,
        keys: &[EventKey],
    ) -> Result<(Vec<EventKey>, u64), StoreError> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(Default::default()) };
        let gone = self.keys(sql::REMOVE_IDENTITIES, &[first, last, &keys]).await?;
        let fingerprints = self.keys(sql::REMOVE_FINGERPRINTS, &[first, last, &keys]).await?;
        Ok((gone, fingerprints.len() as u64))
    }

    async fn removed(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, StoreError> {
        self.step(async |client| {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, values).await
        })
        .await
    }

    async fn keys(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<EventKey>, StoreError> {
        self.step(async |client| {
            let statement = client.prepare_cached(sql).await?;
            let rows = client.query(&statement, values).await?;
            let key = |row: &tokio_postgres::Row| Ok(EventKey::from_bytes(row.try_get::<_, Uuid>(0)?.into_bytes()));
            rows.iter().map(key).collect()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        let check =
            |text: &str, expected: Option<(EventKey, EventKey)>| assert_eq!(read_bounds(text), expected, "{text}");
        let (from, to) = (EventKey::at(1_731_628_800_000), EventKey::at(1_731_715_200_000));
        check(&format!("FOR VALUES FROM ('{from}') TO ('{to}')"), Some((from, to)));
        check("DEFAULT", None);
        check(&format!("FOR VALUES FROM (MINVALUE) TO ('{to}')"), None);
    }
}
