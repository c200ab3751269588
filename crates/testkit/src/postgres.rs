//! Throw-away Postgres clusters with real durability: fsync is on, because what is under test is a promise about disks.
//!
//! [`Cluster::shared`] is one per test process (or the server named in `ONCEBOX_TEST_POSTGRES`, which `ci.sh` starts
//! once for the whole run); [`Cluster::start`] is for tests that stop, restart or misconfigure their own. A cluster
//! dies with its test process, and its directory is swept by the next process that starts one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::database::postgres_query;
use crate::{free_port, process, vendor};

mod home;

use home::Home;
pub use home::find_programs as programs;
pub(crate) use home::unprivileged;

/// The environment variable that names a server to use, as `postgres://user@host:port/postgres` of a superuser.
pub const SERVER_VARIABLE: &str = "ONCEBOX_TEST_POSTGRES";

const START_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(60);
const PORT_TRIES: usize = 5;

/// A running Postgres.
pub struct Cluster(Server);

enum Server {
    Given { url: String },
    Own(Box<Own>),
}

struct Own {
    home: Home,
    port: u16,
    settings: Vec<String>,
    envs: Vec<(&'static str, String)>,
    postmaster: Option<Child>,
}

/// What a cluster of one's own may differ in.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<String>,
    envs: Vec<(&'static str, String)>,
    tls: bool,
}

impl Options {
    /// Adds a server setting, such as `fsync=off`; it wins over ours.
    pub fn setting(mut self, name_and_value: &str) -> Self {
        self.settings.push(name_and_value.to_owned());
        self
    }

    /// Adds a variable to the server's environment.
    pub fn env(mut self, name: &'static str, value: &str) -> Self {
        self.envs.push((name, value.to_owned()));
        self
    }

    /// Takes encrypted connections too, as `127.0.0.1` and `localhost` by the test authority's word.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }
}

/// How a cluster is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ends sessions, then writes everything out.
    Fast,
    /// Stops at once, as after a crash; the next start recovers.
    Immediate,
}

impl Cluster {
    /// The one that all tests of this process share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var(SERVER_VARIABLE) {
            Ok(url) if !url.is_empty() => Self(Server::Given { url }),
            _ => Self::start(Options::default()),
        })
    }

    /// A new one, stopped and removed on drop.
    pub fn start(options: Options) -> Self {
        let home = Home::create();
        let mut settings = options.settings;
        if options.tls {
            let certificate = home.keep("server.pem", vendor::TLS_CERTIFICATE);
            let key = home.keep("server_key.pem", vendor::TLS_KEY);
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={}", certificate.display()));
            settings.push(format!("ssl_key_file={}", key.display()));
        }
        let mut own = Own { home, port: 0, settings, envs: options.envs, postmaster: None };
        for _ in 0..PORT_TRIES {
            own.port = free_port();
            if own.launch() {
                return Self(Server::Own(Box::new(own)));
            }
        }
        panic!("Postgres did not start; its log says:\n{}", own.home.log());
    }

    /// A standby of a running one, which is stopped for the moment of the copy; in recovery until [`Cluster::promote`].
    pub fn standby_of(primary: &mut Self) -> Self {
        primary.stop(Mode::Fast);
        let source = primary.own_mut();
        let home = Home::copy_of(&source.home);
        let follow = format!("primary_conninfo=host=127.0.0.1 port={} user=postgres", source.port);
        primary.start_again();
        let mut own = Own { home, port: 0, settings: vec![follow], envs: Vec::new(), postmaster: None };
        for _ in 0..PORT_TRIES {
            own.port = free_port();
            if own.launch() {
                return Self(Server::Own(Box::new(own)));
            }
        }
        panic!("the standby did not start; its log says:\n{}", own.home.log());
    }

    /// Makes a standby a primary, and waits for it.
    pub fn promote(&self) {
        let promoted = postgres_query(&self.url("postgres"), "select pg_promote(true, 60)");
        assert_eq!(promoted, [["t"]], "its log says:\n{}", self.log());
    }

    /// Stops it and waits until it is gone.
    pub fn stop(&mut self, mode: Mode) {
        self.own_mut().stop(mode);
    }

    /// Starts it again with the same data on the same port.
    pub fn start_again(&mut self) {
        let own = self.own_mut();
        assert!(own.postmaster.is_none(), "the cluster runs already");
        assert!(own.launch(), "Postgres did not start again; its log says:\n{}", own.home.log());
    }

    /// Its TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        match &self.0 {
            Server::Own(own) => own.port,
            Server::Given { url } => port_of(url),
        }
    }

    /// The URL of one of its databases, over TCP.
    pub fn url(&self, database: &str) -> String {
        match &self.0 {
            Server::Own(own) => format!("postgres://postgres@127.0.0.1:{}/{database}", own.port),
            Server::Given { url } => with_database(url, database),
        }
    }

    /// The folder of its Unix socket; none for a server that was given by URL.
    pub fn socket_dir(&self) -> Option<&Path> {
        match &self.0 {
            Server::Own(own) => Some(own.home.socket_dir()),
            Server::Given { .. } => None,
        }
    }

    /// Its log so far; empty for a server that was given by URL.
    pub fn log(&self) -> String {
        match &self.0 {
            Server::Own(own) => own.home.log(),
            Server::Given { .. } => String::new(),
        }
    }

    fn own_mut(&mut self) -> &mut Own {
        match &mut self.0 {
            Server::Own(own) => own,
            Server::Given { .. } => panic!("only a cluster started by the test can be stopped"),
        }
    }
}

impl Own {
    /// Starts the server and waits until it takes connections; false if it ended instead.
    fn launch(&mut self) -> bool {
        let postmaster = process::spawn(self.command(), libc::SIGQUIT).expect("the postgres program runs");
        self.postmaster = Some(postmaster);
        let started = Instant::now();
        while started.elapsed() < START_DEADLINE {
            if self.exited() {
                return false;
            }
            if self.home.is_ready() {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("Postgres did not get ready in {START_DEADLINE:?}; its log says:\n{}", self.home.log());
    }

    fn command(&self) -> Command {
        let mut command = self.home.command("postgres");
        let socket_dir = self.home.socket_dir().display();
        let ours = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            format!("unix_socket_directories={socket_dir}"),
            "max_connections=300".to_owned(),
            "shared_buffers=64MB".to_owned(),
        ];
        command.envs(self.envs.iter().map(|(name, value)| (name, value)));
        command.arg("-D").arg(self.home.data_dir());
        for setting in ours.iter().chain(&self.settings) {
            command.arg("-c").arg(setting);
        }
        let log = self.home.open_log();
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file handle can be doubled")).stderr(log);
        command
    }

    fn stop(&mut self, mode: Mode) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        let signal = match mode {
            Mode::Fast => libc::SIGINT,
            Mode::Immediate => libc::SIGQUIT,
        };
        process::signal(&postmaster, signal);
        let asked = Instant::now();
        while postmaster.try_wait().expect("a child can be waited for").is_none() {
            if asked.elapsed() > STOP_DEADLINE {
                // Losing the postmaster makes its backends end by themselves.
                postmaster.kill().expect("a child can be killed");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn exited(&mut self) -> bool {
        let ended = self.postmaster.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()));
        if ended {
            self.postmaster = None;
        }
        ended
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.stop(Mode::Immediate);
        if thread::panicking() {
            eprintln!("Postgres log:\n{}", self.home.log());
        }
        // Best effort: what stays is swept by the next test process.
        let _ = fs::remove_dir_all(self.home.dir());
    }
}

fn port_of(url: &str) -> u16 {
    let config: tokio_postgres::Config = url.parse().expect("ONCEBOX_TEST_POSTGRES is a postgres:// URL");
    config.get_ports().first().copied().unwrap_or(5432)
}

/// Puts another database name into a URL.
fn with_database(url: &str, database: &str) -> String {
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let authority = base.find("://").map_or(0, |at| at + 3);
    let end = base[authority..].find('/').map_or(base.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{database}{query}", &base[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_keeps_the_rest_of_the_url() {
        let check = |url: &str, expected: &str| assert_eq!(with_database(url, "t_1"), expected);
        check("postgres://u:p@h:1/postgres", "postgres://u:p@h:1/t_1");
        check("postgres://h", "postgres://h/t_1");
        check("postgres://h/postgres?sslmode=disable", "postgres://h/t_1?sslmode=disable");
    }

    #[test]
    fn a_cluster_stops_and_comes_back_on_its_port() {
        assert_eq!(setting(&Cluster::start(Options::default()), "fsync"), "on");
        let mut cluster = Cluster::start(Options::default().setting("fsync=off"));
        let port = cluster.port();
        assert_eq!(setting(&cluster, "fsync"), "off");
        for mode in [Mode::Immediate, Mode::Fast] {
            cluster.stop(mode);
            assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
            cluster.start_again();
            assert_eq!(cluster.port(), port);
            assert_eq!(setting(&cluster, "synchronous_commit"), "on");
        }
        assert!(cluster.socket_dir().is_some_and(Path::is_dir));
    }

    fn setting(cluster: &Cluster, name: &str) -> String {
        let rows = crate::database::postgres_query(&cluster.url("postgres"), &format!("show {name}"));
        rows[0][0].clone()
    }
}
