//! What a Postgres server must be set to before anything is acknowledged from it, and as long as anything is.
//!
//! Every new session is asked. `fsync` can be turned off for all of them at once by a reload, and no session can keep its
//! own value; so a session that comes out of the pool is asked again, one of them every few seconds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::sql::postgres as sql;
use crate::clock::Countdown;

/// How long an answer is believed.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// The oldest server whose behaviour the tests cover.
const VERSION_MIN: i32 = 140_000;

/// How long the last good answer of some session is still believed.
#[derive(Debug)]
pub(super) struct LastGood(Mutex<Countdown>);

impl LastGood {
    pub(super) fn now() -> Self {
        Self(Mutex::new(Countdown::from(ASK_EVERY)))
    }

    /// Asks where the last good answer is old; a bad one is not remembered, so that the next session asks, too.
    pub(super) async fn danger(
        &self,
        client: &tokio_postgres::Client,
    ) -> Result<Option<String>, tokio_postgres::Error> {
        if !self.0.lock().unwrap_or_else(PoisonError::into_inner).left().is_zero() {
            return Ok(None);
        }
        let found = danger(client).await?;
        if found.is_none() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Countdown::from(ASK_EVERY);
        }
        Ok(found)
    }
}

/// What makes this server unsafe to acknowledge from.
pub(super) async fn danger(client: &tokio_postgres::Client) -> Result<Option<String>, tokio_postgres::Error> {
    let row = client.query_one(sql::SETTINGS, &[]).await?;
    let (version, name): (i32, String) = (row.get(0), row.get(1));
    let (fsync, synchronous_commit): (String, String) = (row.get(2), row.get(3));
    Ok(if version < VERSION_MIN {
        Some(format!("PostgreSQL {name} is too old; use 14 or newer"))
    } else if fsync == "off" {
        Some("PostgreSQL runs with fsync = off, so a crash would lose acknowledged events; turn it on".into())
    } else if synchronous_commit == "off" {
        Some("PostgreSQL has synchronous_commit = off for this role or database; set it to on".into())
    } else {
        None
    })
}
