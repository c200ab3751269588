//! The server under load: this same binary as `serve`, on a config of its own that goes when the run ends.

use std::ffi::OsStr;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use data_encoding::HEXLOWER;
use oncebox_verify::Secret;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::LOG_LEVEL;
use super::load::Process;
use crate::config::store::StoreUrl;
use crate::http::token::random;

const START_WAIT: Duration = Duration::from_secs(30);
const SECRET_VARIABLE: &str = "BENCH_SECRET";
const DATABASE_VARIABLE: &str = "BENCH_DATABASE";
#[derive(Debug)]
pub(super) struct Server {
    /// Ended with us.
    _child: Child,
    pub(super) address: SocketAddr,
    pub(super) process: Process,
}

impl Server {
    pub(super) async fn start(folder: &Folder, database: &StoreUrl, secret: &Secret) -> anyhow::Result<Self> {
        let (public, admin) = (free_address()?, free_address()?);
        let config = folder.0.join("oncebox.toml");
        std::fs::write(&config, config_text(public, admin)).context("cannot write a config")?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        // What the environment says is meant for a real server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
            command.env_remove(name);
        }
        command.args(["--log", LOG_LEVEL, "serve", "--config"]).arg(&config);
        command.env(SECRET_VARIABLE, String::from_utf8_lossy(secret.expose()).as_ref());
        command.env(DATABASE_VARIABLE, whole_url(database)?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the server")?;
        wait_until_it_listens(&mut child, public).await?;
        let id = child.id().context("the server ended at once")?;
        let with_postgres = matches!(database, StoreUrl::Postgres(_));
        Ok(Self { _child: child, address: public, process: Process { id, with_postgres } })
    }
}

/// A temporary folder that only we can read, removed at the end.
#[derive(Debug)]
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn create() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("oncebox-bench-{}", HEXLOWER.encode(&random::<8>()?)));
        std::fs::DirBuilder::new().mode(0o700).create(&path).context("cannot make a temporary folder")?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the system's temporary folder and goes with it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A secret that nobody else has.
pub(super) fn made_up_secret() -> anyhow::Result<Secret> {
    Ok(Secret::new(format!("whsec_{}", HEXLOWER.encode(&random::<24>()?))))
}

fn config_text(public: SocketAddr, admin: SocketAddr) -> String {
    // One delivery row per event, as a real inbox has.
    format!(
        "[server]\nlisten = \"{public}\"\nadmin_listen = \"{admin}\"\nin_flight = 8192\n\n\
         [store]\nurl = {{ env = \"{DATABASE_VARIABLE}\" }}\n\n\
         [[source]]\nname = \"stripe\"\nprovider = \"stripe\"\nsecrets = [{{ env = \"{SECRET_VARIABLE}\" }}]\n\n\
         [[handler]]\nname = \"bench\"\npull = true\n"
    )
}

/// The URL as the config reads it, password and all: it goes by the environment, not by a file.
fn whole_url(database: &StoreUrl) -> anyhow::Result<String> {
    match database {
        StoreUrl::Postgres(url) => Ok(url.clone()),
        StoreUrl::Sqlite(path) => {
            let path = std::path::absolute(path).context("cannot find the database's folder")?;
            Ok(format!("sqlite:{}", path.display()))
        }
    }
}

async fn wait_until_it_listens(child: &mut Child, address: SocketAddr) -> anyhow::Result<()> {
    let started = Instant::now();
    while started.elapsed() < START_WAIT {
        if let Some(status) = child.try_wait().context("cannot watch the server")? {
            bail!("the server did not start ({status})");
        }
        if TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the server did not start within {} s", START_WAIT.as_secs())
}

/// An address that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot find a free port")?;
    Ok(listener.local_addr()?)
}

fn is_ours(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("ONCEBOX_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::outside::{Outside, Overrides};

    fn check(url: &str) {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let text = config_text(address(1), address(2));
        let env = |name: &str| Some(if name == DATABASE_VARIABLE { url.to_owned() } else { "whsec_x".to_owned() });
        let nothing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let outside = Outside { env: &env, file: &nothing, overrides: &Overrides::default() };
        let config = Config::parse(&text, "bench", &outside).expect("a good config");
        assert_eq!((config.sources.len(), config.handlers.len()), (1, 1));
    }

    #[test]
    fn configs_are_good_ones() {
        check("sqlite:/tmp/x.db");
        check("postgres://u:p@h/d");
    }

    #[test]
    fn a_folder_goes_with_its_owner() {
        let folder = Folder::create().expect("a folder");
        let path = folder.0.clone();
        std::fs::write(path.join("x"), "").expect("written");
        drop(folder);
        assert!(!path.exists());
    }
}
