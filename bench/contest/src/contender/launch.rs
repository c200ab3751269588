//! Starting the servers, and Redis behind one of them.

use std::fs::{self, File};
use std::io::Read as _;
use std::io::Seek as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use lab::stripe;
use tempfile::TempDir;
use testkit::program::Program;
use testkit::{free_port, spawn_child};

use super::{Contender, Kind, Place};
use crate::install;
use crate::stranger::DATABASE_VARIABLE;

const START_WAIT: Duration = Duration::from_secs(30);

/// A server that runs; it is stopped on drop.
pub(super) enum Server {
    Oncebox(Box<Program>),
    Stranger(Process),
}

impl Server {
    pub(super) fn address(&self) -> &str {
        match self {
            Self::Oncebox(program) => program.public_addr(),
            Self::Stranger(process) => &process.address,
        }
    }

    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Oncebox(program) => program.pid(),
            Self::Stranger(process) => process.child.id(),
        }
    }
}

impl Contender {
    /// Starts it, with so many handlers where it has any, and waits until it takes connections.
    pub(super) fn launch(&self, handlers: usize) -> anyhow::Result<Server> {
        let port = free_port();
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let url = match &self.place {
            Place::Nowhere => String::new(),
            Place::Database(database) => database.url().to_owned(),
            Place::Redis(redis) => redis.url(),
        };
        let mut command = Command::new(&self.program);
        match self.kind {
            Kind::OnceboxPostgres | Kind::OnceboxSqlite => {
                return Ok(Server::Oncebox(Box::new(lab::server::start(&self.program, &url, handlers))));
            }
            Kind::Ceiling | Kind::Naive | Kind::Redis => {
                command = Command::new(std::env::current_exe()?);
                let name = format!("{:?}", self.kind).to_lowercase();
                command.args(["serve", &name, &port.to_string()]);
            }
            Kind::Express | Kind::Fastify => {
                command = Command::new("node");
                command.arg(self.program.join(format!("{:?}.mjs", self.kind).to_lowercase()));
                command.env("NODE_ENV", "production");
            }
            Kind::Fastapi => {
                command.args(["-m", "uvicorn", "server:app", "--host", "127.0.0.1", "--no-access-log", "--port"]);
                command.arg(port.to_string()).current_dir(install::strangers().join("python"));
                command.env("PYTHONDONTWRITEBYTECODE", "1");
            }
            Kind::QhookPostgres | Kind::QhookSqlite => {
                let config = folder.path().join("qhook.yaml");
                fs::write(&config, qhook_config(self.kind, &url, port)?)?;
                command.args(["start", "--config"]).arg(config).current_dir(folder.path());
            }
        }
        command.env(DATABASE_VARIABLE, url).env("STRIPE_SECRET", stripe::SECRET).env("PORT", port.to_string());
        Ok(Server::Stranger(Process::start(command, port, folder)?))
    }
}

fn qhook_config(kind: Kind, url: &str, port: u16) -> anyhow::Result<String> {
    let driver = if kind == Kind::QhookSqlite { "sqlite" } else { "postgres" };
    let template = fs::read_to_string(install::strangers().join("qhook/qhook.yaml"))?;
    let values = [("driver", driver), ("url", url), ("port", &port.to_string()), ("secret", stripe::SECRET)];
    Ok(values.iter().fold(template, |text, (name, value)| text.replace(&format!("{{{name}}}"), value)))
}

/// A program that listens, with a folder of its own.
pub(super) struct Process {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Process {
    /// Waits until it takes connections.
    fn start(mut command: Command, port: u16, folder: TempDir) -> anyhow::Result<Self> {
        let shown = format!("{command:?}");
        // Into a file, as Oncebox: a pipe that nobody reads would stop it.
        let mut log = tempfile::tempfile()?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
        let child = spawn_child(command).with_context(|| format!("cannot run {shown}"))?;
        let mut process = Self { child, address: format!("127.0.0.1:{port}"), _folder: folder };
        let started = Instant::now();
        while std::net::TcpStream::connect(&process.address).is_err() {
            if started.elapsed() > START_WAIT || process.child.try_wait()?.is_some() {
                bail!("it did not start: {shown}\n{}", text(&mut log));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has ended, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(log: &mut File) -> String {
    let mut bytes = Vec::new();
    // Nothing was said where nothing can be read.
    let _ = log.rewind().and_then(|()| log.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A Redis that writes every command to disk before it answers.
pub(super) struct RedisServer(Process);

impl RedisServer {
    pub(super) async fn start(program: &Path) -> anyhow::Result<Self> {
        let (port, folder) = (free_port(), tempfile::tempdir().context("cannot make a folder")?);
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(folder.path());
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
        Ok(Self(Process::start(command, port, folder)?))
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.0.address)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.child.id()
    }

    /// How many it holds.
    pub(super) async fn keys(&self) -> anyhow::Result<u64> {
        let mut connection = redis::Client::open(self.url())?.get_multiplexed_async_connection().await?;
        Ok(redis::cmd("DBSIZE").query_async(&mut connection).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_open_in_a_config() {
        let config = qhook_config(Kind::QhookSqlite, "sqlite:x.db", 7).expect("a config");
        for line in ["driver: sqlite", "url: \"sqlite:x.db\"", "port: 7", &format!("secret: {}", stripe::SECRET)] {
            assert!(config.contains(line), "{line} in:\n{config}");
        }
        assert!(!config.contains('{'), "{config}");
    }
}
