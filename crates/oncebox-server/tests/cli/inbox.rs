//! `oncebox dev` in a folder of its own, ended with its test.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::http;
use testkit::program::{Output, free_port};

use crate::{BIN, oncebox, oncebox_json};

/// Where its standard output goes.
const BANNER: &str = "banner.txt";
const DEADLINE: Duration = Duration::from_secs(30);

/// A running inbox.
pub(crate) struct Inbox {
    folder: TempDir,
    public: String,
    admin: String,
    database: Option<String>,
    child: Child,
}

impl Inbox {
    /// Starts it and waits until it is ready.
    pub(crate) fn dev() -> Self {
        Self::dev_on(None)
    }

    /// As [`Inbox::dev`], on this database in place of a file in its folder.
    pub(crate) fn dev_on(database: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (public, admin) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
        let mut command = Command::new(BIN);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONCEBOX_")) {
            command.env_remove(name);
        }
        command.args(["dev", "--listen", &public, "--admin-listen", &admin]).current_dir(folder.path());
        command.args(database.iter().flat_map(|url| ["--database", url]));
        let banner = std::fs::File::create(folder.path().join(BANNER)).expect("a file");
        let child = command.stdin(Stdio::null()).stdout(banner).stderr(Stdio::null()).spawn();
        let database = database.map(str::to_owned);
        let inbox = Self { folder, public, admin, database, child: child.expect("the program runs") };
        wait_for(|| http::request(&inbox.admin, "GET", "/readyz", &[], b"").is_ok_and(|answer| answer.status == 200));
        inbox
    }

    /// The folder with its database and secrets.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it told its terminal.
    pub(crate) fn banner(&self) -> String {
        std::fs::read_to_string(self.folder().join(BANNER)).expect("a banner")
    }

    /// The public listener's URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.public)
    }

    /// The admin listener's URL.
    pub(crate) fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// Sends to it and returns the JSON.
    pub(crate) fn send(&self, args: &[&str]) -> Value {
        let url = self.url();
        let database: Vec<&str> = self.database.iter().flat_map(|url| ["--database", url.as_str()]).collect();
        oncebox_json(self.folder(), &[&["send"], args, &database, &["--to", &url, "--json"]].concat(), 0)
    }

    /// Asks the server.
    pub(crate) fn ask(&self, args: &[&str]) -> Output {
        let url = self.admin_url();
        oncebox(self.folder(), &[args, &["--admin-url", &url]].concat(), 0)
    }

    /// Asks the server for JSON.
    pub(crate) fn ask_json(&self, args: &[&str]) -> Value {
        let url = self.admin_url();
        oncebox_json(self.folder(), &[args, &["--admin-url", &url, "--json"]].concat(), 0)
    }

    /// Ends the server and keeps its folder.
    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until something is true; panics after a while.
pub(crate) fn wait_for(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "it never came true");
        thread::sleep(Duration::from_millis(20));
    }
}
