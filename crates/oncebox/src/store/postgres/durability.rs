//! What a Postgres server must be set to before anything is acknowledged from it, and as long as anything is.
//!
//! Every new session is asked. `fsync` can be turned off for all of them at once by a reload, and no session can keep its
//! own value; so a session that comes out of the pool is asked again, one of them every few seconds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Countdown;
use crate::store::postgres::classify;
use crate::store::sql::postgres as sql;
use crate::store::{Durability, StoreError};

/// How long an answer is believed.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The oldest server whose behaviour the tests cover.
const VERSION_MIN: i32 = 140_000;

/// How long the last good answer of some session is still believed.
#[derive(Debug)]
pub(in crate::store) struct LastGood(Mutex<Countdown>);

impl LastGood {
    pub(in crate::store) fn now() -> Self {
        Self(Mutex::new(Countdown::from(ASK_EVERY)))
    }

    /// Asks where the last good answer is old; a bad one is not remembered, so that the next session asks, too.
    pub(in crate::store) async fn refusal(
        &self,
        client: &tokio_postgres::Client,
        durability: Durability,
    ) -> Result<Option<StoreError>, StoreError> {
        if !self.0.lock().unwrap_or_else(PoisonError::into_inner).left().is_zero() {
            return Ok(None);
        }
        let refusal = Facts::ask(client).await.map_err(classify)?.refusal(durability);
        if refusal.is_none() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Countdown::from(ASK_EVERY);
        }
        Ok(refusal)
    }
}

/// What a session says of itself and its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Facts {
    version: i32,
    version_name: String,
    fsync: String,
    synchronous_commit: String,
    encoding: String,
    in_recovery: bool,
    read_only: bool,
    pub(in crate::store) backend: i32,
}

impl Facts {
    pub(in crate::store) async fn ask(client: &tokio_postgres::Client) -> Result<Self, tokio_postgres::Error> {
        let row = client.query_one(sql::SETTINGS, &[]).await?;
        Ok(Self {
            version: row.try_get(0)?,
            version_name: row.try_get(1)?,
            fsync: row.try_get(2)?,
            synchronous_commit: row.try_get(3)?,
            encoding: row.try_get(4)?,
            in_recovery: row.try_get(5)?,
            read_only: row.try_get::<_, String>(6)? == "on",
            backend: row.try_get(7)?,
        })
    }

    /// Why nothing may be written through this session.
    pub(in crate::store) fn refusal(&self, durability: Durability) -> Option<StoreError> {
        if self.in_recovery {
            return Some(StoreError::Disconnected("it is a standby (in recovery) and takes no writes".into()));
        }
        if self.read_only {
            let why = "it takes no writes: default_transaction_read_only is on for this server, role or database";
            return Some(StoreError::Disconnected(why.into()));
        }
        if self.encoding != "UTF8" {
            return Some(StoreError::Unsafe(format!(
                "the database's encoding is {}, which cannot hold every event; make it with \
                 CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
                self.encoding
            )));
        }
        self.durability_risk().filter(|_| durability == Durability::Required).map(StoreError::Unsafe)
    }

    /// What makes this server unsafe to acknowledge from.
    pub(in crate::store) fn durability_risk(&self) -> Option<String> {
        if self.version < VERSION_MIN {
            Some(format!("PostgreSQL {} is too old; use 14 or newer", self.version_name))
        } else if self.fsync == "off" {
            Some("PostgreSQL runs with fsync = off, so a crash would lose acknowledged events; turn it on".into())
        } else if self.synchronous_commit == "off" {
            Some("PostgreSQL has synchronous_commit = off for this role or database; set it to on".into())
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_refused_for_what_it_says() {
        let good = || Facts {
            version: 150_000,
            version_name: "15".to_owned(),
            fsync: "on".to_owned(),
            synchronous_commit: "on".to_owned(),
            encoding: "UTF8".to_owned(),
            in_recovery: false,
            read_only: false,
            backend: 1,
        };
        let says = |facts: Facts, durability| facts.refusal(durability).map(|error| error.chain());
        for (facts, required, accepted) in [
            (good(), None, None),
            (Facts { in_recovery: true, ..good() }, Some("standby"), Some("standby")),
            (Facts { read_only: true, ..good() }, Some("default_transaction_read_only"), Some("takes no writes")),
            (Facts { encoding: "LATIN1".to_owned(), ..good() }, Some("LATIN1"), Some("ENCODING 'UTF8'")),
            (Facts { encoding: "SQL_ASCII".to_owned(), ..good() }, Some("SQL_ASCII"), Some("SQL_ASCII")),
            (Facts { version: 130_000, ..good() }, Some("too old"), None),
            (Facts { fsync: "off".to_owned(), ..good() }, Some("fsync"), None),
            (Facts { synchronous_commit: "off".to_owned(), ..good() }, Some("synchronous_commit"), None),
        ] {
            for (durability, expected) in [(Durability::Required, required), (Durability::Unsafe, accepted)] {
                let said = says(facts.clone(), durability);
                let fits = said.as_deref().zip(expected).is_some_and(|(said, word)| said.contains(word));
                assert!(fits || (said.is_none() && expected.is_none()), "{facts:?} {durability:?}: {said:?}");
            }
        }
    }
}
