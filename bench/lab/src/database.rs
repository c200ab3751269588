//! A database that is ours to fill: opened as the program opens it, or by a connection of our own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use oncebox::gateway::store::{Access, Connections, Durability, Store};
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio_postgres::NoTls;

/// How long another writer is waited for.
const BUSY: Duration = Duration::from_secs(60);

/// Where a database is.
#[derive(Clone)]
pub enum Database {
    /// A file.
    Sqlite(PathBuf),
    /// A URL, which may hold a password.
    Postgres(String),
}

/// A connection of our own.
pub enum Connection {
    /// To a file.
    Sqlite(rusqlite::Connection),
    /// To a server.
    Postgres(tokio_postgres::Client),
}

impl Database {
    /// Reads `sqlite:FILE` or `postgres://…`; the error does not repeat what may hold a password.
    pub fn parse(url: &str) -> anyhow::Result<Self> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url.to_owned()));
        }
        match url.strip_prefix("sqlite:") {
            Some(file) if !file.is_empty() => Ok(Self::Sqlite(std::path::absolute(file)?)),
            _ => bail!("the database is not named well: write sqlite:FILE or postgres://USER@HOST/NAME"),
        }
    }

    /// The one that is named, or a file in a folder that goes with the answer. Warns before the first is filled.
    pub fn named_or_temporary(url: Option<&str>) -> anyhow::Result<(Self, Option<TempDir>)> {
        if let Some(url) = url {
            let database = Self::parse(url)?;
            eprintln!("warning: the {} database is filled with made-up events", database.kind());
            return Ok((database, None));
        }
        let folder = tempfile::Builder::new().prefix("oncebox-lab-").tempdir().context("cannot make a folder")?;
        Ok((Self::Sqlite(folder.path().join("lab.db")), Some(folder)))
    }

    /// Which kind it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// As a config names it.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(file) => format!("sqlite:{}", file.display()),
            Self::Postgres(url) => url.clone(),
        }
    }

    /// The full name of a table of ours.
    pub fn table(&self, name: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("oncebox_{name}"),
            Self::Postgres(_) => format!("oncebox.{name}"),
        }
    }

    /// Opens it as the program does, with the schema up to date.
    pub async fn open(&self) -> anyhow::Result<Store> {
        let store = match self {
            Self::Sqlite(file) => Store::open_sqlite(file, Access::Server, Durability::Restart).await,
            Self::Postgres(url) => {
                Store::connect_postgres(url, Connections { ingest: 1, work: 18 }, Durability::Restart).await
            }
        };
        let store = store.context("cannot open the database")?;
        store.migrate().await.context("cannot bring the schema up to date")?;
        Ok(store)
    }

    /// Opens a connection of our own.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        match self {
            Self::Sqlite(file) => {
                let connection = rusqlite::Connection::open(file).context("cannot open the file")?;
                connection.busy_timeout(BUSY)?;
                Ok(Connection::Sqlite(connection))
            }
            Self::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("cannot connect")?;
                tokio::spawn(connection);
                Ok(Connection::Postgres(client))
            }
        }
    }

    /// The bytes of a table of ours, indexes included.
    pub async fn bytes_of(&self, connection: &Connection, table: &str) -> anyhow::Result<i64> {
        let statement = match self {
            Self::Sqlite(_) => include_str!("../sql/sqlite/table_bytes.sql"),
            Self::Postgres(_) => include_str!("../sql/postgres/table_bytes.sql"),
        };
        connection.number(&statement.replace("{table}", &self.table(table))).await
    }

    /// The rows of a table of ours.
    pub async fn rows_of(&self, connection: &Connection, table: &str) -> anyhow::Result<i64> {
        connection.number(&format!("SELECT count(*) FROM {}", self.table(table))).await
    }
}

impl Connection {
    /// Runs statements without values.
    pub async fn execute(&self, statements: &str) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(connection) => block_in_place(|| connection.execute_batch(statements))?,
            Self::Postgres(client) => client.batch_execute(statements).await?,
        }
        Ok(())
    }

    /// The one number that a query returns.
    pub async fn number(&self, query: &str) -> anyhow::Result<i64> {
        Ok(match self {
            Self::Sqlite(connection) => block_in_place(|| connection.query_row(query, [], |row| row.get(0)))?,
            Self::Postgres(client) => client.query_one(query, &[]).await?.try_get(0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_url_is_not_repeated() {
        let Err(error) = Database::parse("mysql://u:hunter2@h/d") else { panic!("it is none of ours") };
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(Database::parse("sqlite:").is_err());
        assert_eq!(Database::parse("sqlite:/x.db").map(|file| file.url()).ok().as_deref(), Some("sqlite:/x.db"));
    }
}
