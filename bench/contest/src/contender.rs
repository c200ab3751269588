//! One server of the contest: started for its turn, put under load, its rows counted, stopped.

mod launch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum;
use lab::figures::Figures;
use lab::load::{self, Load, Seen};
use lab::usage;
use serde::{Deserialize, Serialize};
use testkit::postgres::Cluster;
use testkit::{Backend, TestDatabase};

use crate::install;
use crate::stranger::TABLE;
use launch::{RedisServer, Server};

/// How long a server is left alone before its idle memory is read.
const IDLE: Duration = Duration::from_secs(1);

/// What kind of server it is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
pub(crate) enum Kind {
    /// axum: verifies and stores nothing
    Ceiling,
    /// axum and one INSERT a request
    Naive,
    /// Express and pg
    Express,
    /// Fastify and pg
    Fastify,
    /// `FastAPI` and asyncpg
    Fastapi,
    /// axum and Redis: SET NX of the id alone
    Redis,
    /// qhook on Postgres
    QhookPostgres,
    /// qhook on SQLite
    QhookSqlite,
    /// Oncebox on Postgres
    OnceboxPostgres,
    /// Oncebox on SQLite
    OnceboxSqlite,
}

/// One of them, with a database that it keeps over its turns.
pub(crate) struct Contender {
    kind: Kind,
    name: String,
    /// The program that is started: a build of ours, or what was installed.
    program: PathBuf,
    place: Place,
    /// Any database of the cluster.
    postgres: String,
}

/// Where it stores.
enum Place {
    Nowhere,
    Database(TestDatabase),
    Redis(RedisServer),
}

/// What one load is like.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    pub(crate) repeat_percent: u8,
    pub(crate) body_size: usize,
    pub(crate) handlers: usize,
}

/// What one load gave.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Measured {
    pub(crate) shape: Shape,
    pub(crate) figures: Figures,
    /// Resident memory of the server at its end, the connections still open.
    pub(crate) mib: f64,
    /// Answers that were neither `accepted` nor `duplicate`.
    pub(crate) failed: u64,
}

/// What a turn gave.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Turn {
    /// Resident memory of the server before any request.
    pub(crate) idle_mib: f64,
    pub(crate) loads: Vec<Measured>,
}

impl Kind {
    /// How it is called in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ceiling => "axum, verifies only (ceiling)",
            Self::Naive => "axum, one INSERT a request (naive)",
            Self::Express => "Express + pg",
            Self::Fastify => "Fastify + pg",
            Self::Fastapi => "FastAPI + asyncpg",
            Self::Redis => "axum + Redis SET NX, id only",
            Self::QhookPostgres => "qhook, Postgres",
            Self::QhookSqlite => "qhook, SQLite",
            Self::OnceboxPostgres => "Oncebox, Postgres",
            Self::OnceboxSqlite => "Oncebox, SQLite",
        }
    }

    /// Whether it is ours.
    pub(crate) fn is_oncebox(self) -> bool {
        matches!(self, Self::OnceboxPostgres | Self::OnceboxSqlite)
    }

    /// Whether it is asked about duplicates, too: ours, and the one that they are compared with.
    pub(crate) fn repeats(self) -> bool {
        self.is_oncebox() || self == Self::Naive
    }

    /// Whether a single answer that is not a success ends the contest: of others it is a figure.
    fn must_not_fail(self) -> bool {
        self.repeats() || self == Self::Ceiling
    }

    fn is_on_postgres(self) -> bool {
        !matches!(self, Self::Ceiling | Self::Redis | Self::QhookSqlite | Self::OnceboxSqlite)
    }

    /// The table that it fills.
    fn table(self, database: &TestDatabase) -> String {
        match self {
            Self::QhookPostgres | Self::QhookSqlite => "events".to_owned(),
            Self::OnceboxPostgres | Self::OnceboxSqlite => database.table("events"),
            _ => "inbox".to_owned(),
        }
    }
}

impl Contender {
    /// Makes its database, and installs what is missing. A build's name is left out where there is only one.
    pub(crate) async fn new(kind: Kind, build: (&str, &Path), cluster: &Cluster) -> anyhow::Result<Self> {
        let program = match kind {
            Kind::Ceiling | Kind::Naive => std::env::current_exe()?,
            Kind::Redis => install::redis()?,
            Kind::Express | Kind::Fastify => install::node()?,
            Kind::Fastapi => install::python()?,
            Kind::QhookPostgres | Kind::QhookSqlite => install::qhook()?,
            Kind::OnceboxPostgres | Kind::OnceboxSqlite => build.1.to_owned(),
        };
        let place = match kind {
            Kind::Ceiling => Place::Nowhere,
            Kind::Redis => Place::Redis(RedisServer::start(&program).await?),
            Kind::QhookSqlite | Kind::OnceboxSqlite => Place::Database(TestDatabase::fresh(Backend::Sqlite)),
            _ => Place::Database(TestDatabase::fresh_on(cluster)),
        };
        match (kind, &place) {
            // It never sets this itself, and would be slower without.
            (Kind::QhookSqlite, Place::Database(database)) => database.execute("pragma journal_mode = wal"),
            (Kind::Naive | Kind::Express | Kind::Fastify | Kind::Fastapi, Place::Database(database)) => {
                database.execute(TABLE);
            }
            _ => {}
        }
        let title = kind.title();
        let is_named = kind.is_oncebox() && !build.0.is_empty();
        let name = if is_named { format!("{title} ({})", build.0) } else { title.to_owned() };
        Ok(Self { kind, name, program, place, postgres: cluster.url("postgres") })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its turn: every load on one server; another is started where the number of handlers differs.
    pub(crate) async fn turn(&self, shapes: &[Shape], seconds: u64) -> anyhow::Result<Turn> {
        let mut turn = Turn::default();
        let mut running: Option<(usize, Server)> = None;
        for shape in shapes {
            let server = match running.take() {
                Some((handlers, server)) if handlers == shape.handlers => server,
                other => {
                    // A file has one server at a time.
                    drop(other);
                    let server = self.launch(shape.handlers)?;
                    tokio::time::sleep(IDLE).await;
                    if turn.loads.is_empty() {
                        turn.idle_mib = usage::resident_mib(server.pid());
                    }
                    server
                }
            };
            turn.loads.push(self.load(&server, *shape, seconds).await?);
            running = Some((shape.handlers, server));
        }
        Ok(turn)
    }

    async fn load(&self, server: &Server, shape: Shape, seconds: u64) -> anyhow::Result<Measured> {
        let before = self.rows().await?;
        // Held while the load runs: its parent is the database server.
        let (client, connection) = tokio_postgres::connect(&self.postgres, tokio_postgres::NoTls).await?;
        let session = tokio::spawn(connection);
        let backend: i32 = client.query_one("select pg_backend_pid()", &[]).await?.get(0);
        let database = || match &self.place {
            Place::Redis(redis) => usage::of_process(redis.pid()),
            _ if self.kind.is_on_postgres() => usage::of_postgres(backend.unsigned_abs()),
            _ => Duration::ZERO,
        };
        let Shape { connections, repeat_percent, body_size, .. } = shape;
        let (address, path) = (server.address(), self.path());
        let load = Load { address, path, connections, seconds, body_size, repeat_percent };
        let spent = async || (usage::of_process(server.pid()), database(), usage::resident_mib(server.pid()));
        let (mut seen, first, last) = load::run(&load, spent).await?;
        drop(client);
        session.abort();
        ensure!(!seen.measured.is_empty(), "nothing was accepted; {} other answers", seen.others);
        ensure!(seen.others == 0 || !self.kind.must_not_fail(), "{} answers were no success", seen.others);
        // What stores nothing knows nothing again.
        if let (Some(before), Some(after)) = (before, self.rows().await?) {
            check(&seen, after - before)?;
        }
        let failed = seen.others;
        let figures = Figures::new(&mut seen, last.0.saturating_sub(first.0), last.1.saturating_sub(first.1));
        Ok(Measured { shape, figures, mib: last.2, failed })
    }

    fn path(&self) -> &'static str {
        match self.kind {
            Kind::QhookPostgres | Kind::QhookSqlite => "/webhooks/stripe",
            _ => lab::server::PATH,
        }
    }

    /// The events that it has stored so far.
    async fn rows(&self) -> anyhow::Result<Option<u64>> {
        let database = match &self.place {
            Place::Nowhere => return Ok(None),
            Place::Redis(redis) => return redis.keys().await.map(Some),
            Place::Database(database) => database,
        };
        // Oncebox makes its tables at its first start, which was before the first load.
        Ok(Some(database.count(&self.kind.table(database)).unsigned_abs()))
    }
}

impl Turn {
    /// The load of this shape.
    pub(crate) fn at(&self, shape: Shape) -> Option<&Measured> {
        self.loads.iter().find(|one| one.shape == shape)
    }
}

/// Compares answers with rows. Who answered an error may still have stored the event.
fn check(seen: &Seen, stored: u64) -> anyhow::Result<()> {
    let (accepted, possible) = (seen.accepted, seen.accepted + seen.others);
    ensure!((accepted..=possible).contains(&stored), "accepted {accepted}, stored {stored}");
    let (repeats, duplicates) = (seen.repeats, seen.duplicates);
    ensure!(
        duplicates <= repeats && duplicates + seen.others >= repeats,
        "{repeats} events were sent again, {duplicates} answered as duplicates"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_rows_must_agree() {
        let seen =
            |accepted, duplicates, repeats, others| Seen { accepted, duplicates, repeats, others, ..Seen::default() };
        assert!(check(&seen(10, 0, 0, 0), 10).is_ok());
        assert!(check(&seen(10, 0, 0, 0), 9).is_err(), "one is lost");
        assert!(check(&seen(10, 0, 0, 0), 11).is_err(), "one is there twice");
        assert!(check(&seen(10, 0, 0, 2), 12).is_ok(), "stored, but not acknowledged");
        assert!(check(&seen(11, 4, 5, 0), 11).is_err(), "a repeat was taken for a new one");
        assert!(check(&seen(10, 5, 5, 0), 10).is_ok());
        assert!(check(&seen(10, 6, 5, 0), 10).is_err(), "a new one was taken for a repeat");
    }
}
