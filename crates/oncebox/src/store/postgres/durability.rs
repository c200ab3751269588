//! What a Postgres server must be set to before anything is acknowledged from it, and as long as anything is.
//!
//! Every new session is asked. `fsync` can be turned off for all of them at once by a reload, and no session can keep its
//! own value; so a session that comes out of the pool is asked again, one of them every few seconds.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Countdown;
use crate::store::postgres::classify;
use crate::store::sql::postgres as sql;
use crate::store::{Durability, StoreError};

/// How long an answer is believed.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The oldest server whose behaviour the tests cover.
const VERSION_MIN: i32 = 140_000;

/// The last good answer of some session.
#[derive(Debug)]
pub(in crate::store) struct LastGood(Mutex<Answer>);

#[derive(Debug)]
struct Answer {
    /// How long it is still believed.
    believed: Countdown,
    failover_risk: Option<String>,
}

impl LastGood {
    pub(in crate::store) fn now() -> Self {
        Self(Mutex::new(Answer { believed: Countdown::from(ASK_EVERY), failover_risk: None }))
    }

    /// Asks where the last good answer is old; a bad one is not remembered, so that the next session asks, too.
    pub(in crate::store) async fn refusal(
        &self,
        client: &tokio_postgres::Client,
        durability: Durability,
    ) -> Result<Option<StoreError>, StoreError> {
        if !self.answer().believed.left().is_zero() {
            return Ok(None);
        }
        let facts = Facts::ask(client).await.map_err(classify)?;
        let refusal = facts.refusal(durability);
        if refusal.is_none() {
            self.note(&facts);
        }
        Ok(refusal)
    }

    pub(in crate::store) fn note(&self, facts: &Facts) {
        *self.answer() = Answer { believed: Countdown::from(ASK_EVERY), failover_risk: facts.failover_risk() };
    }

    pub(in crate::store) fn failover_risk(&self) -> Option<String> {
        self.answer().failover_risk.clone()
    }

    fn answer(&self) -> MutexGuard<'_, Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    standby_names: String,
    /// Somebody receives its log.
    is_followed: bool,
    is_neon: bool,
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
            standby_names: row.try_get(8)?,
            is_followed: row.try_get(9)?,
            is_neon: row.try_get::<_, Option<bool>>(10)?.unwrap_or(false),
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
        let risk = match durability {
            Durability::Unsafe => None,
            Durability::Restart => self.durability_risk(),
            Durability::Failover => self.durability_risk().or_else(|| self.unconfirmed().map(|why| confirmed_by(&why))),
        };
        risk.map(StoreError::Unsafe)
    }

    /// What makes this server unsafe to acknowledge from.
    pub(in crate::store) fn durability_risk(&self) -> Option<String> {
        if self.version < VERSION_MIN {
            Some(format!("PostgreSQL {} is too old; use 14 or newer", self.version_name))
        } else if self.fsync == "off" && !self.is_neon {
            Some("PostgreSQL runs with fsync = off, so a crash would lose acknowledged events; turn it on".into())
        } else if self.synchronous_commit == "off" {
            Some("PostgreSQL has synchronous_commit = off for this role or database; set it to on".into())
        } else {
            None
        }
    }

    /// Why a commit is answered before a standby has it on disk.
    fn unconfirmed(&self) -> Option<String> {
        match (self.standby_names.as_str(), self.synchronous_commit.as_str()) {
            ("", _) => Some("synchronous_standby_names is empty".to_owned()),
            (_, "on" | "remote_apply") => None,
            (_, level) => Some(format!("synchronous_commit is {level} for this role or database")),
        }
    }

    /// What the promotion of a standby may cost, where there is one.
    fn failover_risk(&self) -> Option<String> {
        let why = self.unconfirmed().filter(|_| self.is_followed || !self.standby_names.is_empty())?;
        Some(format!("a failover may lose acknowledged events: no commit waits until a standby has it on disk ({why})"))
    }
}

fn confirmed_by(why: &str) -> String {
    format!(
        "store.survive is \"failover\", but no commit waits until a standby has it on disk: {why}; name synchronous \
         standbys and set synchronous_commit to on, or write survive = \"restart\""
    )
}

/// Why a server that speaks PostgreSQL's protocol is none that this store can stand on.
pub(in crate::store) fn foreign_engine(version: &str, host: Option<&str>) -> Option<StoreError> {
    let dsql = host.is_some_and(|host| host.contains(".dsql.") && host.ends_with(".on.aws"));
    let (name, lacks) = if version.contains("CockroachDB") {
        ("CockroachDB", "session locks are not kept there, and the functions for applications cannot be made")
    } else if version.contains("-YB-") {
        ("YugabyteDB", "rows have no place of their own (ctid) there, by which claims are made")
    } else if dsql {
        ("Aurora DSQL", "it has no savepoints, no partitions and no functions in PL/pgSQL")
    } else {
        return None;
    };
    Some(StoreError::Unsafe(format!(
        "the database is {name}, which is not supported: {lacks}; use PostgreSQL 14 or newer"
    )))
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
            standby_names: String::new(),
            is_followed: false,
            is_neon: false,
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
            (Facts { fsync: "off".to_owned(), is_neon: true, ..good() }, None, None),
            (Facts { synchronous_commit: "off".to_owned(), ..good() }, Some("synchronous_commit"), None),
            (Facts { synchronous_commit: "local".to_owned(), ..good() }, None, None),
        ] {
            for (durability, expected) in [(Durability::Restart, required), (Durability::Unsafe, accepted)] {
                let said = says(facts.clone(), durability);
                let fits = said.as_deref().zip(expected).is_some_and(|(said, word)| said.contains(word));
                assert!(fits || (said.is_none() && expected.is_none()), "{facts:?} {durability:?}: {said:?}");
            }
        }
    }
    #[test]
    fn a_failover_is_survived_where_a_standby_confirms() {
        let facts = |names: &str, level: &str, is_followed: bool| Facts {
            version: 150_000,
            version_name: "15".to_owned(),
            fsync: "on".to_owned(),
            synchronous_commit: level.to_owned(),
            encoding: "UTF8".to_owned(),
            in_recovery: false,
            read_only: false,
            backend: 1,
            standby_names: names.to_owned(),
            is_followed,
            is_neon: false,
        };
        for (facts, refused, risk) in [
            (facts("", "on", false), Some("synchronous_standby_names is empty"), false),
            (facts("", "on", true), Some("survive = \"restart\""), true),
            (facts("*", "on", true), None, false),
            (facts("ANY 1 (a, b)", "remote_apply", false), None, false),
            (facts("*", "local", true), Some("synchronous_commit is local"), true),
            (facts("*", "remote_write", true), Some("synchronous_commit is remote_write"), true),
            (facts("*", "off", true), Some("synchronous_commit = off"), true),
        ] {
            let said = facts.refusal(Durability::Failover).map(|error| error.chain());
            let fits = said.as_deref().zip(refused).is_some_and(|(said, word)| said.contains(word));
            assert!(fits || (said.is_none() && refused.is_none()), "{facts:?}: {said:?}");
            assert_eq!(facts.failover_risk().is_some(), risk, "{facts:?}");
        }
    }

    #[test]
    fn engines_that_only_speak_the_protocol_are_refused_by_name() {
        let name = |version: &str, host: &str| foreign_engine(version, Some(host)).map(|error| error.chain());
        let postgres = "PostgreSQL 15.8 (Debian 15.8-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc";
        assert_eq!(name(postgres, "db.example.com"), None);
        for (version, host, expected) in [
            ("CockroachDB CCL v25.4.0 (x86_64-pc-linux-gnu)", "db", "CockroachDB"),
            ("PostgreSQL 15.2-YB-2.25.0.0-b0 on x86_64-pc-linux-gnu", "db", "YugabyteDB"),
            ("PostgreSQL 16", "abc.dsql.eu-west-1.on.aws", "Aurora DSQL"),
        ] {
            let said = name(version, host).expect("it is refused");
            assert!(said.contains(expected) && said.contains("use PostgreSQL 14"), "{said}");
        }
    }
}
