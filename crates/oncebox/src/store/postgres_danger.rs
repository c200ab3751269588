//! What a Postgres server must be set to before anything is acknowledged from it.

use super::sql::postgres as sql;

/// The oldest server whose behaviour the tests cover.
const VERSION_MIN: i32 = 140_000;

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
