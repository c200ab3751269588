//! A disk that fails a flush: nothing is acknowledged after it, and the program stops so that somebody looks.

use std::fs;
use std::path::Path;

use testkit::{Backend, TestDatabase, preload};

use crate::handling::event;
use crate::world::{PATIENCE, Setup, World};

/// Fails every flush for as long as a file is there.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int flush(const char *name, int fd) {
    const char *path = getenv("SHIM_BROKEN");
    if (path && access(path, F_OK) == 0) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}
int fsync(int fd) { return flush("fsync", fd); }
int fdatasync(int fd) { return flush("fdatasync", fd); }
"#;

#[test]
fn after_a_failed_flush_nothing_is_acknowledged() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let shim = preload::build(dir.path(), SHIM);
    let broken = dir.path().join("broken");
    let text = |path: &Path| path.to_str().expect("a path is text").to_owned();
    let db = TestDatabase::fresh(Backend::Sqlite);
    let setup = Setup::new(db.url()).env("LD_PRELOAD", &text(&shim)).env("SHIM_BROKEN", &text(&broken));
    let mut world = World { program: setup.serve(), db };
    for number in 0..20 {
        world.expect("custom", &event(number), "accepted");
    }
    fs::write(&broken, "").expect("the disk can be broken");
    // Whoever is heard hears 503. The counts of arrivals are written on their own time: where that write meets the
    // broken disk first, the program is gone before the request comes.
    if let Ok(answer) = event(20).try_post(world.program.public_addr(), "custom") {
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
    }
    assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(1));
    assert!(world.program.log().contains("the disk did not take a flush"), "{}", world.program.log());
    fs::remove_file(&broken).expect("the disk can be mended");
    world.program.restart();
    for number in 0..20 {
        world.expect("custom", &event(number), "duplicate");
    }
    // Nobody was told what became of it; the sender's retry settles it.
    assert_eq!(world.post("custom", &event(20)).status, 200);
    assert_eq!(world.db.count(&world.db.table("events")), 21);
}
