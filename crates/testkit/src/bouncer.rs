//! The real pgbouncer in front of a test cluster.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{free_port, postgres, process};

const START_DEADLINE: Duration = Duration::from_secs(20);
const MISSING: &str = "pgbouncer is missing: install it (Debian, Ubuntu: `apt-get install pgbouncer`), name it in \
    ONCEBOX_TEST_PGBOUNCER, or run ./ci.sh, which does it for you";

/// A running pgbouncer; ends on drop.
pub struct Bouncer {
    port: u16,
    program: Child,
    _config: TempDir,
}

impl Bouncer {
    /// Starts one in front of 127.0.0.1 and this port, with this `pool_mode`.
    pub fn start(upstream_port: u16, pool_mode: &str) -> Self {
        let (port, dir) = (free_port(), tempfile::tempdir_in("/tmp").expect("a temporary folder can be made"));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("a new folder's mode can be set");
        let config = dir.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={upstream_port} user=postgres\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {pool_mode}\n"
        );
        fs::write(&config, text).expect("a file can be written");
        let mut command = Command::new(find_program());
        // It refuses to run as root.
        if let Some((uid, gid)) = postgres::unprivileged() {
            command.uid(uid).gid(gid);
        }
        command.arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = process::spawn(command, libc::SIGKILL).expect("pgbouncer runs");
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < START_DEADLINE, "pgbouncer does not listen on {port}");
            thread::sleep(Duration::from_millis(10));
        }
        Self { port, program, _config: dir }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = (self.program.kill(), self.program.wait());
    }
}

fn find_program() -> PathBuf {
    if let Some(given) = std::env::var_os("ONCEBOX_TEST_PGBOUNCER") {
        return given.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join("pgbouncer")).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{MISSING}"))
}
