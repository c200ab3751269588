//! Where a cluster lives: the programs, the user they run as, and a directory that this user owns.
//!
//! Postgres refuses to run as root, so under root its programs run as `postgres` or `nobody`, in a directory which
//! that user can reach.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const DIR_PREFIX: &str = "oncebox-pg-";
const MISSING: &str = "no Postgres server programs found (initdb, postgres). Install them (Debian, Ubuntu: \
    `apt-get install postgresql`; Fedora: `dnf install postgresql-server`) or name their folder in \
    ONCEBOX_TEST_PG_BIN, or give a running server in ONCEBOX_TEST_POSTGRES, or run ./ci.sh, which does it for you";

/// The directory of one cluster.
pub(super) struct Home {
    programs: PathBuf,
    user: Option<User>,
    dir: PathBuf,
    data: PathBuf,
    socket: PathBuf,
}

#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl Home {
    /// Makes the directory and an empty cluster in it.
    pub(super) fn create() -> Self {
        let home = Self::empty();
        home.initdb();
        home
    }

    /// Makes the directory and a standby of a cluster that does not run at the moment.
    pub(super) fn copy_of(source: &Self) -> Self {
        let home = Self::empty();
        let copied = Command::new("cp").arg("-a").args([&source.data, &home.data]).status().expect("cp runs");
        assert!(copied.success(), "{} cannot be copied", source.data.display());
        let signal = home.data.join("standby.signal");
        fs::write(&signal, "").expect("a file can be written");
        home.own(&signal);
        home
    }

    fn empty() -> Self {
        sweep();
        let programs = find_programs().unwrap_or_else(|| panic!("{MISSING}"));
        let user = is_root().then(unprivileged_user);
        let dir = new_dir();
        let home = Self { programs, user, data: dir.join("data"), socket: dir.join("socket"), dir };
        home.own(&home.dir);
        fs::create_dir(&home.socket).expect("a folder can be made");
        home.own(&home.socket);
        home
    }

    /// One of the programs, to be run as the right user.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.dir).env("LC_ALL", "C");
        for variable in ["PGDATA", "PGPORT", "PGHOST", "PGUSER", "PGDATABASE", "PGOPTIONS"] {
            command.env_remove(variable);
        }
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.data
    }

    pub(super) fn socket_dir(&self) -> &Path {
        &self.socket
    }

    /// Writes a file that only the server can read.
    pub(super) fn keep(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.join(name);
        fs::write(&file, text).expect("a file can be written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("a new file's mode can be set");
        self.own(&file);
        file
    }

    /// Whether the server says, in its pid file, that it takes connections.
    pub(super) fn is_ready(&self) -> bool {
        let status = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        status.lines().nth(7).is_some_and(|word| word.trim() == "ready")
    }

    pub(super) fn open_log(&self) -> File {
        OpenOptions::new().create(true).append(true).open(self.dir.join("log")).expect("the log can be opened")
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    fn initdb(&self) {
        let mut command = self.command("initdb");
        command.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"]);
        let output = command.arg(&self.data).output().expect("initdb runs");
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "initdb failed:\n{said}{complained}");
    }

    fn own(&self, path: &Path) {
        if let Some(user) = self.user {
            chown(path, Some(user.uid), Some(user.gid)).expect("root may give a file away");
        }
    }
}

/// The folder of `initdb`, `postgres` and the tools that come with them.
pub fn find_programs() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("ONCEBOX_TEST_PG_BIN") {
        let given = PathBuf::from(given);
        assert!(has_programs(&given), "ONCEBOX_TEST_PG_BIN has no initdb and postgres in {}", given.display());
        return Some(given);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| has_programs(folder));
    on_path.or_else(from_pg_config).or_else(newest_of_debian)
}

fn from_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    has_programs(&folder).then_some(folder)
}

fn newest_of_debian() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let version = |name: &str| name.parse::<u32>().ok();
    let mut found: Vec<_> = versions
        .filter_map(|entry| Some((version(entry.file_name().to_str()?)?, entry.path().join("bin"))))
        .filter(|(_, folder)| has_programs(folder))
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

fn has_programs(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file())
}

/// User and group to run a program as that refuses to run as root; none where we are not.
pub(crate) fn unprivileged() -> Option<(u32, u32)> {
    is_root().then(unprivileged_user).map(|user| (user.uid, user.gid))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn unprivileged_user() -> User {
    let users = fs::read_to_string("/etc/passwd").expect("the list of users can be read");
    let find = |name: &str| {
        users.lines().find_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            (fields.first() == Some(&name))
                .then(|| Some(User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? }))?
        })
    };
    find("postgres").or_else(|| find("nobody")).expect("there is a user `postgres` or `nobody` to run Postgres as")
}

/// A new folder that everybody can reach; its name says which process owns it.
fn new_dir() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = reachable_temp_dir().join(format!("{DIR_PREFIX}{}-{number}", std::process::id()));
    fs::create_dir(&dir).unwrap_or_else(|error| panic!("cannot make {}: {error}", dir.display()));
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("a new folder's mode can be set");
    dir
}

fn reachable_temp_dir() -> PathBuf {
    let wanted = std::env::temp_dir();
    let open = |folder: &Path| fs::metadata(folder).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0);
    if wanted.is_absolute() && wanted.ancestors().all(open) { wanted } else { PathBuf::from("/tmp") }
}

/// Removes what killed test processes left behind.
fn sweep() {
    let Ok(entries) = fs::read_dir(reachable_temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(DIR_PREFIX)).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()) {
            // Another process may sweep the same folder, and another user's is not ours to remove.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
