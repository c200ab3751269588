//! A disk that fails a flush: nothing is acknowledged after it, and the program stops so that somebody looks.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use testkit::{Backend, TestDatabase, preload};

use crate::handling::event;
use crate::world::{PATIENCE, Setup, World, custom};

/// Fails every flush of files whose name ends as told, for as long as a file is there.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int concerns(int fd) {
    char link[64], name[4096];
    const char *end = getenv("SHIM_END");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return (size_t)length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}
static int flush(const char *name, int fd) {
    const char *path = getenv("SHIM_BROKEN");
    if (path && access(path, F_OK) == 0 && concerns(fd)) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}
int fsync(int fd) { return flush("fsync", fd); }
int fdatasync(int fd) { return flush("fdatasync", fd); }
"#;

/// A server on a disk that can be broken: the flushes of files whose name ends so fail.
struct Broken {
    world: World,
    switch: PathBuf,
    _dir: tempfile::TempDir,
}

impl Broken {
    fn new(end: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let shim = preload::build(dir.path(), SHIM);
        let switch = dir.path().join("broken");
        let text = |path: &Path| path.to_str().expect("a path is text").to_owned();
        let db = TestDatabase::fresh(Backend::Sqlite);
        let setup = Setup::new(db.url())
            .env("LD_PRELOAD", &text(&shim))
            .env("SHIM_BROKEN", &text(&switch))
            .env("SHIM_END", end);
        Self { world: World { program: setup.serve(), db }, switch, _dir: dir }
    }

    fn break_disk(&self) {
        fs::write(&self.switch, "").expect("the disk can be broken");
    }

    /// Waits until the program is gone, then starts it on a healthy disk.
    fn start_anew(&mut self) {
        let program = &mut self.world.program;
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(1));
        assert!(program.log().contains("fsync failed"), "{}", program.log());
        fs::remove_file(&self.switch).expect("the disk can be made healthy");
        program.restart();
    }
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged() {
    let mut broken = Broken::new("");
    for number in 0..20 {
        broken.world.expect("custom", &event(number), "accepted");
    }
    broken.break_disk();
    // Whoever is heard hears 503. The counts of arrivals are written on their own time: where that write meets the
    // broken disk first, the program is gone before the request comes.
    if let Ok(answer) = event(20).try_post(broken.world.program.public_addr(), "custom") {
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
    }
    broken.start_anew();
    let world = &broken.world;
    for number in 0..20 {
        world.expect("custom", &event(number), "duplicate");
    }
    // Nobody was told what became of it; the sender's retry settles it.
    assert_eq!(world.post("custom", &event(20)).status, 200);
    assert_eq!(world.db.count(&world.db.table("events")), 21);
}

/// The log is flushed, so whoever was answered is safe; what was copied out of it is not.
#[test]
fn after_a_failed_flush_of_the_file_the_log_is_kept() {
    let mut broken = Broken::new(".db");
    let large = |number| custom(format!(r#"{{"id":"evt_{number}","filler":"{}"}}"#, "x".repeat(900_000)));
    // The log of a quiet server is moved when it is 16 MiB long.
    let count = 24;
    broken.break_disk();
    for number in 0..count {
        broken.world.expect("custom", &large(number), "accepted");
    }
    let mut more = count;
    while broken.world.program.exited().is_none() {
        thread::sleep(Duration::from_millis(200));
        assert!(more < count + 50, "the flush of the file was never tried: {}", broken.world.program.log());
        // It may be gone by now.
        if event(more).try_post(broken.world.program.public_addr(), "custom").is_ok_and(|answer| answer.status == 200) {
            more += 1;
        }
    }
    let log = broken.world.db.file().expect("a file").with_extension("db-wal");
    assert!(fs::metadata(&log).is_ok_and(|log| log.len() > 16 << 20), "the log is kept");
    broken.start_anew();
    for number in 0..count {
        broken.world.expect("custom", &large(number), "duplicate");
    }
    for number in count..more {
        broken.world.expect("custom", &event(number), "duplicate");
    }
}
