//! `oncebox backup`: a copy of an SQLite database while the server goes on.
//!
//! The copy is written beside its final name, flushed, checked and renamed: whatever is found under the name is whole,
//! and a backup that was killed leaves only a file that the next one takes over.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::cli::database::BackupArgs;
use crate::cli::operator::OperatorArgs;
use crate::operator::database_of;
use crate::terminal::{self, Progress};
use crate::usage::wrong_usage;

pub(crate) async fn run(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let (config, database) = (args.config.clone(), args.database.clone());
    let place = OperatorArgs { config, database, admin_url: None, admin_token: None, json: args.json };
    let (store, _) = database_of(&place).await?;
    if store.kind() == "postgres" {
        return Err(wrong_usage(
            "Postgres has its own tools for this: pg_dump for one database, pg_basebackup for the whole server; \
             docs/backup.md has the commands",
        ));
    }
    if args.to.exists() && !args.force {
        bail!("{} is there already; take another name, or replace it with --force", args.to.display());
    }
    let started = Instant::now();
    let part = Part::take(&args.to)?;
    let mut bar = None;
    let copied = store
        .back_up(&part.path, move |copied| {
            bar.get_or_insert_with(|| Progress::new(copied.of, "pages")).reach(copied.pages);
        })
        .await;
    store.close().await;
    copied.context("cannot copy the database")?;
    let bytes = part.settle(&args.to)?;
    let seconds = started.elapsed().as_secs_f64();
    terminal::show(args.json, &json!({"file": args.to, "bytes": bytes, "seconds": seconds}), || {
        format!("{}: {bytes} bytes, checked, in {seconds:.1} s", args.to.display())
    })
}

/// The file while it is being written. It is locked, so that two backups to one name do not mix.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn take(to: &Path) -> anyhow::Result<Self> {
        let path = beside(to, ".part");
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another backup to {} is under way", to.display()),
            Err(TryLockError::Error(error)) => return Err(error).context("cannot lock the new file"),
        }
        // What a killed one left.
        file.set_len(0).with_context(|| format!("cannot write {}", path.display()))?;
        for ending in ["-journal", "-wal", "-shm"] {
            remove(&beside(&path, ending))?;
        }
        Ok(Self { path, file })
    }

    /// Flushes the file, gives it its name, and flushes the name. Says how many bytes it has.
    fn settle(self, to: &Path) -> anyhow::Result<u64> {
        let trouble = || format!("cannot finish {}", to.display());
        self.file.sync_all().with_context(trouble)?;
        let bytes = self.file.metadata().with_context(trouble)?.len();
        fs::rename(&self.path, to).with_context(trouble)?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(trouble)?;
        Ok(bytes)
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
