//! The files of an SQLite database: who may read them, and whether those on the disk are still the ones that were opened.
//!
//! A file that was removed or replaced takes writes and flushes like any other, and is gone with the process. So what is
//! found under the path is compared with what is open after each commit and before its answer, and once a second where
//! nobody writes. A file that is overwritten in place, by `cp`, stays the same file: this cannot be seen.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use crate::store::StoreError;
use crate::store::sqlite::classify;

/// Makes the database file for its owner alone, whatever the umask says; SQLite gives the log the same mode. One that is
/// there stays as it is.
pub(in crate::store) fn make_private(path: &Path) {
    // What is wrong here SQLite tells in a moment, with more words. Nobody has a lock yet that the closing could end.
    drop(private().create_new(true).open(path));
}

/// Opens a file, made for its owner alone if need be.
pub(in crate::store) fn open_private(path: &Path) -> io::Result<File> {
    private().read(true).create(true).truncate(false).open(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// The files that are open, as they were found after the opening.
#[derive(Debug)]
pub(in crate::store) struct OpenFiles {
    files: Vec<(PathBuf, FileId)>,
    /// An open handle to the WAL: its bytes stay readable after the file is removed.
    log: Option<(PathBuf, File)>,
    is_told: AtomicBool,
}

/// What makes a file the same, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|file: Metadata| Self { device: file.dev(), inode: file.ino() })
    }
}

/// Why nothing may be acknowledged any more.
#[derive(Debug, thiserror::Error)]
#[error("{} was removed or replaced", path.display())]
pub(in crate::store) struct FileGone {
    path: PathBuf,
}

impl From<FileGone> for StoreError {
    fn from(gone: FileGone) -> Self {
        Self::Disconnected(gone.into())
    }
}

impl OpenFiles {
    /// Takes note of the database at this path and of its log, which are open.
    pub(in crate::store) fn of(path: &Path, connection: &Connection) -> Result<Self, StoreError> {
        // The log is there from the first look at a table on.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(classify)?;
        let found = |path: PathBuf| FileId::of(&path).map(|id| (path, id));
        let mut files = vec![found(path.to_owned()).map_err(|error| StoreError::Disconnected(error.into()))?];
        // SQLite follows links, and keeps these beside the file itself.
        let own = connection.path().unwrap_or_default();
        // Without them (another journal mode) there is nothing to lose.
        files.extend(["-wal", "-shm"].into_iter().filter_map(|end| found(format!("{own}{end}").into()).ok()));
        let log = PathBuf::from(format!("{own}-wal"));
        let log = File::open(&log).ok().map(|file| (log, file));
        Ok(Self { files, log, is_told: AtomicBool::new(false) })
    }

    /// Writes a removed WAL back beside the database, if the database file is still the one that was opened: acknowledged
    /// events may be nowhere else. Called at the end, when nothing is written any more.
    pub(in crate::store) fn put_log_back(&self) {
        let Some((path, log)) = &self.log else { return };
        let is_lone = matches!(path.try_exists(), Ok(false));
        let is_ours = |(path, id): &(PathBuf, FileId)| FileId::of(path).is_ok_and(|found| found == *id);
        if !is_lone || !self.files.first().is_some_and(is_ours) {
            return;
        }
        match copy_whole(log, path) {
            Ok(()) => tracing::warn!("restored {}", path.display()),
            Err(error) => tracing::error!("{} could not be restored: {error}", path.display()),
        }
    }

    /// Looks whether they are still there. It costs a few microseconds, so it is done after every commit.
    pub(in crate::store) fn check(&self) -> Result<(), FileGone> {
        let is_other = |(path, id): &&(PathBuf, FileId)| match FileId::of(path) {
            Ok(found) => found != *id,
            // Too many open files and the like say nothing about it.
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        let Some((path, _)) = self.files.iter().find(is_other) else { return Ok(()) };
        let gone = FileGone { path: path.clone() };
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "{gone} while the server runs, so nothing is acknowledged any more: what is written would be gone with the \
                 process; put the right file in place (docs/backup.md) and start the server anew"
            );
        }
        Err(gone)
    }
}

/// Copies to a new file and renames it, so that the copy is whole or not there.
fn copy_whole(mut file: &File, path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let mut copy = private().create(true).truncate(true).open(&name)?;
    file.seek(io::SeekFrom::Start(0))?;
    io::copy(&mut file, &mut copy)?;
    copy.sync_all()?;
    fs::rename(&name, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{Access, open_writer};

    #[test]
    fn each_file_that_is_removed_or_replaced_is_missed() {
        for end in ["", "-wal", "-shm"] {
            for is_replaced in [false, true] {
                let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
                let path = db.file().unwrap();
                let writer = open_writer(path, Access::Server).unwrap();
                let files = OpenFiles::of(path, &writer).unwrap();
                assert!(files.check().is_ok());
                let file = PathBuf::from(format!("{}{end}", path.display()));
                let copy = path.with_extension("copy");
                fs::copy(&file, &copy).unwrap();
                if is_replaced {
                    fs::rename(&copy, &file).unwrap()
                } else {
                    fs::remove_file(&file).unwrap()
                }
                let gone = files.check().unwrap_err();
                assert_eq!(gone.path, file, "{end} {is_replaced}");
            }
        }
    }

    #[test]
    fn a_link_that_points_elsewhere_is_missed() {
        let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
        let path = db.file().unwrap();
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(path, &link).unwrap();
        let writer = open_writer(&link, Access::Server).unwrap();
        let files = OpenFiles::of(&link, &writer).unwrap();
        assert_eq!(files.files.len(), 3, "{files:?}");
        assert!(files.check().is_ok());
        fs::remove_file(&link).unwrap();
        fs::write(&link, "").unwrap();
        assert_eq!(files.check().unwrap_err().path, link);
    }
}
