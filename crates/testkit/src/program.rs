//! The real binary, started as a user starts it: a config file, a port, signals.
//!
//! The caller hands in the path (`env!("CARGO_BIN_EXE_oncebox")`), because only the crate of the binary knows it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{http, process};

const LOG_BYTES_MAX: u64 = 1024 * 1024;
const READY_DEADLINE: Duration = Duration::from_secs(30);

// Below the range from which the system takes the ports of outgoing connections: one of those would be in the way
// between our look and the server's own bind.
const PORT_FIRST: u16 = 20_000;
const PORTS: u32 = 12_000;

/// A port on 127.0.0.1 that was free a moment ago; no two calls in a process get the same one.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Test processes begin at different places.
        let nth = std::process::id().wrapping_mul(37).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = PORT_FIRST + u16::try_from(nth % PORTS).expect("a number below PORTS is small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// `oncebox serve`, running.
pub struct Program {
    bin: PathBuf,
    dir: TempDir,
    envs: Vec<(String, String)>,
    public: String,
    admin: String,
    log: Log,
    running: Child,
}

impl Program {
    /// Starts it with this config and waits until `/readyz` is 200.
    pub fn serve(bin: impl AsRef<Path>, config: &str) -> Self {
        Self::serve_with(bin, config, &[])
    }

    /// As [`Program::serve`], with variables in its environment.
    pub fn serve_with(bin: impl AsRef<Path>, config: &str, envs: &[(&str, &str)]) -> Self {
        let mut program = Self::launch(bin, config, envs);
        program.wait_ready();
        program
    }

    /// Starts it and does not wait: for a start that must fail.
    pub fn launch(bin: impl AsRef<Path>, config: &str, envs: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("oncebox-test-").tempdir().expect("a temporary folder can be made");
        fs::write(dir.path().join("oncebox.toml"), config).expect("the config can be written");
        let (bin, log) = (bin.as_ref().to_owned(), Log::new());
        let envs: Vec<_> = envs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let running = start(&bin, dir.path(), &envs, &log);
        Self { bin, dir, envs, public: address(config, "listen"), admin: address(config, "admin_listen"), log, running }
    }

    /// Waits until `/readyz` is 200.
    pub fn wait_ready(&mut self) {
        let started = Instant::now();
        while started.elapsed() < READY_DEADLINE {
            if let Some(status) = self.exited() {
                panic!("the program ended with {status} before it was ready; it said:\n{}", self.log());
            }
            if http::request(&self.admin, "GET", "/readyz", &[], b"").is_ok_and(|answer| answer.status == 200) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the program was not ready in {READY_DEADLINE:?}; it said:\n{}", self.log());
    }

    /// Starts it again after its end, same config, same ports, and waits until it is ready.
    pub fn restart(&mut self) {
        assert!(self.exited().is_some(), "the program still runs");
        self.running = start(&self.bin, self.dir.path(), &self.envs, &self.log);
        self.wait_ready();
    }

    /// Writes another config over the old one, for SIGHUP or the next start.
    pub fn write_config(&self, config: &str) {
        fs::write(self.config_path(), config).expect("the config can be written");
    }

    /// Its config file.
    pub fn config_path(&self) -> PathBuf {
        self.dir.path().join("oncebox.toml")
    }

    /// The folder it runs in.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.id()
    }

    /// Sends SIGKILL and waits for its end.
    pub fn kill9(&mut self) {
        self.running.kill().expect("a child can be killed");
        self.running.wait().expect("a child can be waited for");
    }

    /// Sends a signal, such as `libc::SIGTERM`; nothing happens if it has ended.
    pub fn signal(&mut self, signal: i32) {
        if self.exited().is_none() {
            process::signal(&self.running, signal);
        }
    }

    /// Its exit status if it has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.running.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end; panics after the deadline.
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(started.elapsed() < deadline, "still running after {deadline:?}; it said:\n{}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// `http://` and the public listener.
    pub fn public_url(&self) -> String {
        format!("http://{}", self.public)
    }

    /// `http://` and the admin listener.
    pub fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// Host and port of the public listener.
    pub fn public_addr(&self) -> &str {
        &self.public
    }

    /// Host and port of the admin listener.
    pub fn admin_addr(&self) -> &str {
        &self.admin
    }

    /// The last megabyte of what it printed, over restarts.
    pub fn log(&self) -> String {
        self.log.text()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if it has ended, which is what we want.
        let _ = self.running.kill();
        let _ = self.running.wait();
        if thread::panicking() {
            eprintln!("the program said:\n{}", self.log());
        }
    }
}

/// What a finished command left.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its exit code; none after a signal.
    pub status: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// Runs a command of the binary to its end in a folder, without any `ONCEBOX_` variable but those given.
pub fn run(bin: impl AsRef<Path>, args: &[&str], envs: &[(&str, &str)], dir: impl AsRef<Path>) -> Output {
    let mut command = clean_command(bin.as_ref(), dir.as_ref());
    command.args(args).envs(envs.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = process::spawn(command, libc::SIGKILL).expect("the program runs");
    let output = child.wait_with_output().expect("a child can be waited for");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Output { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// What it prints goes into a file without a name: what it printed before it answered is there when the answer is.
struct Log(File);

impl Log {
    fn new() -> Self {
        Self(tempfile::tempfile().expect("a temporary file can be made"))
    }

    /// Both outputs, and those of its next start, share one place in the file.
    fn output(&self) -> Stdio {
        self.0.try_clone().expect("a file can be opened again").into()
    }

    /// The last of it.
    fn text(&self) -> String {
        let length = self.0.metadata().expect("a file has a length").len();
        let from = length.saturating_sub(LOG_BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length - from).expect("a few megabytes")];
        self.0.read_exact_at(&mut bytes, from).expect("a file can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn start(bin: &Path, dir: &Path, envs: &[(String, String)], log: &Log) -> Child {
    let mut command = clean_command(bin, dir);
    command.args(["serve", "--config"]).arg(dir.join("oncebox.toml"));
    command.envs(envs.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(log.output()).stderr(log.output());
    process::spawn(command, libc::SIGKILL).unwrap_or_else(|error| panic!("cannot run {}: {error}", bin.display()))
}

fn clean_command(bin: &Path, dir: &Path) -> Command {
    let mut command = Command::new(bin);
    let ours = |name: &OsStr| name.to_string_lossy().starts_with("ONCEBOX_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.current_dir(dir);
    command
}

/// The address in a line `key = "host:port"`; tests write it in their config, so a missing one is their mistake.
fn address(config: &str, key: &str) -> String {
    let value = config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().split('"').nth(1))?
    });
    value.unwrap_or_else(|| panic!("the config has no line {key} = \"127.0.0.1:…\"")).to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const EXIT_DEADLINE: Duration = Duration::from_secs(10);

    #[test]
    fn a_program_is_waited_for_signalled_and_restarted() {
        let ready = answer_ready();
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let bin =
            stand_in(dir.path(), "trap 'echo told; exit 3' TERM; echo \"$1 $2 $WORD\"; while :; do sleep 0.01; done");
        let config = format!("[server]\nlisten = \"127.0.0.1:1\" # unused\nadmin_listen = \"{ready}\"\n");
        let mut program = Program::serve_with(&bin, &config, &[("WORD", "hello")]);
        assert_eq!(program.public_url(), "http://127.0.0.1:1");
        assert_eq!(program.admin_addr(), ready);
        wait_for(|| program.log().contains("serve --config hello\n"));

        program.signal(libc::SIGTERM);
        assert_eq!(program.wait_exit(EXIT_DEADLINE).code(), Some(3));
        program.restart();
        program.kill9();
        assert_eq!(program.wait_exit(EXIT_DEADLINE).code(), None);
        wait_for(|| program.log().contains("told\n"));
    }

    #[test]
    fn a_command_gives_its_status_and_both_outputs() {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let output = run("/bin/sh", &["-c", "pwd; echo $WORD >&2; exit 2"], &[("WORD", "no")], dir.path());
        assert_eq!((output.status, output.stderr.as_str()), (Some(2), "no\n"));
        let folder = dir.path().canonicalize().expect("the folder exists");
        assert_eq!(output.stdout.trim(), folder.to_string_lossy());
    }

    fn stand_in(dir: &Path, script: &str) -> PathBuf {
        let bin = dir.join("stand-in");
        fs::write(&bin, format!("#!/bin/sh\n{script}\n")).expect("a script can be written");
        fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).expect("a mode can be set");
        bin
    }

    /// Says 200 to everything, as a program that is ready would.
    fn answer_ready() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port can be found");
        let address = listener.local_addr().expect("a bound socket has an address").to_string();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            }
        });
        address
    }

    fn wait_for(condition: impl Fn() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(started.elapsed() < EXIT_DEADLINE, "it never came true");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
