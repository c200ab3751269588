//! One server of the contest: started for its turn, warmed up, measured, its rows counted, stopped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use lab::figures::Figures;
use lab::{load, usage};
use serde::Serialize;
use testkit::postgres::Cluster;
use testkit::program::Program;
use testkit::{Backend, TestDatabase, free_port};

use crate::Args;
use crate::stranger::{DATABASE_VARIABLE, TABLE};

const START_WAIT: Duration = Duration::from_secs(30);

/// What kind of server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ceiling,
    Naive,
    OnPostgres,
    OnSqlite,
}

/// One of them, with a database that it keeps over all rounds.
pub(crate) struct Contender {
    kind: Kind,
    name: String,
    build: PathBuf,
    database: Option<TestDatabase>,
    /// Any database of the cluster.
    postgres: String,
}

/// What a turn gave: with many connections, and with one.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Turn {
    pub(crate) many: Figures,
    pub(crate) one: Figures,
    pub(crate) rss_mib: f64,
}

enum Server {
    Oncebox(Box<Program>),
    Stranger { child: Child, address: String },
}

impl Contender {
    pub(crate) fn new(kind: Kind, cluster: &Cluster) -> Self {
        let name =
            if kind == Kind::Ceiling { "axum, verifies only (ceiling)" } else { "axum, one INSERT a request (naive)" };
        Self::named(kind, name.to_owned(), PathBuf::new(), cluster)
    }

    pub(crate) fn of_build(kind: Kind, name: &str, build: &Path, cluster: &Cluster) -> Self {
        let database = if kind == Kind::OnSqlite { "SQLite" } else { "Postgres" };
        Self::named(kind, format!("{name}, {database}"), build.to_owned(), cluster)
    }

    fn named(kind: Kind, name: String, build: PathBuf, cluster: &Cluster) -> Self {
        let database = match kind {
            Kind::Ceiling => None,
            Kind::Naive | Kind::OnPostgres => Some(TestDatabase::fresh_on(cluster)),
            Kind::OnSqlite => Some(TestDatabase::fresh(Backend::Sqlite)),
        };
        if let (Kind::Naive, Some(database)) = (kind, &database) {
            database.execute(TABLE);
        }
        Self { kind, name, build, database, postgres: cluster.url("postgres") }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its turn.
    pub(crate) async fn measure(&mut self, args: &Args) -> anyhow::Result<Turn> {
        let server = self.start()?;
        let many = self.load(&server, args, args.connections).await?;
        let rss_mib = usage::resident_mib(server.pid());
        let one = self.load(&server, args, 1).await?;
        Ok(Turn { many, one, rss_mib })
    }

    async fn load(&self, server: &Server, args: &Args, connections: usize) -> anyhow::Result<Figures> {
        let before = self.rows();
        // Held while the load runs: its parent is the database server.
        let (client, connection) = tokio_postgres::connect(&self.postgres, tokio_postgres::NoTls).await?;
        let session = tokio::spawn(connection);
        let backend: i32 = client.query_one("select pg_backend_pid()", &[]).await?.get(0);
        let spent = async || (usage::of_process(server.pid()), usage::of_postgres(backend.unsigned_abs()));
        let (mut seen, first, last) =
            load::run(server.address(), connections, args.seconds, args.body_size, spent).await?;
        drop(client);
        session.abort();
        ensure!(seen.others == 0, "{} answers were not `accepted`", seen.others);
        if let (Some(before), Some(after)) = (before, self.rows()) {
            ensure!(after - before == seen.accepted, "accepted {}, stored {}", seen.accepted, after - before);
        }
        let with_postgres = matches!(self.kind, Kind::Naive | Kind::OnPostgres);
        let postgres = if with_postgres { last.1.saturating_sub(first.1) } else { Duration::ZERO };
        Ok(Figures::new(&mut seen, last.0.saturating_sub(first.0), postgres))
    }

    /// The events that it has stored so far.
    fn rows(&self) -> Option<u64> {
        let database = self.database.as_ref()?;
        let rows = match self.kind {
            Kind::Naive => database.query("select count(*) from inbox"),
            _ => database.query(&format!("select count(*) from {}", database.table("events"))),
        };
        rows.first()?.first()?.parse().ok()
    }

    fn start(&self) -> anyhow::Result<Server> {
        match self.kind {
            Kind::Ceiling => stranger("ceiling", None),
            Kind::Naive => stranger("naive", self.database.as_ref()),
            Kind::OnPostgres | Kind::OnSqlite => {
                let url = self.database.as_ref().map_or("", TestDatabase::url);
                Ok(Server::Oncebox(Box::new(lab::server::start(&self.build, url))))
            }
        }
    }
}

impl Server {
    fn address(&self) -> &str {
        match self {
            Self::Oncebox(program) => program.public_addr(),
            Self::Stranger { address, .. } => address,
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Oncebox(program) => program.pid(),
            Self::Stranger { child, .. } => child.id(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Self::Stranger { child, .. } = self {
            // Fails only if it has ended, which is what we want.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn stranger(name: &str, database: Option<&TestDatabase>) -> anyhow::Result<Server> {
    let port = free_port();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", name, &port.to_string()]).stdin(Stdio::null());
    if let Some(database) = database {
        command.env(DATABASE_VARIABLE, database.url());
    }
    let server = Server::Stranger { child: command.spawn()?, address: format!("127.0.0.1:{port}") };
    let started = Instant::now();
    while std::net::TcpStream::connect(server.address()).is_err() {
        if started.elapsed() > START_WAIT {
            bail!("it did not start");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}
