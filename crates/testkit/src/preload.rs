//! Small libraries in C that a program is started with, in front of the system's: a clock that is off, a disk that fails.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Adds the seconds that a file holds to every look at the wall clock, and to no other clock.
const WALL_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long by(void) {
    const char *path = getenv("SHIM_OFFSET");
    FILE *file = path ? fopen(path, "r") : 0;
    long seconds = 0;
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real(id, at);
    if (id == CLOCK_REALTIME) at->tv_sec += by();
    return outcome;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int outcome = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return outcome;
}
"#;

/// A wall clock that the test moves under a running program.
pub struct WallClock {
    dir: TempDir,
    library: PathBuf,
}

impl WallClock {
    /// One that is right so far.
    pub fn build() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        // The program may run as another user.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("a new folder's mode can be set");
        let library = build(dir.path(), WALL_CLOCK);
        let clock = Self { dir, library };
        clock.set(0);
        clock
    }

    /// The clock is off by so many seconds from now on. Written beside and moved, so that nobody reads half of it.
    pub fn set(&self, seconds: i64) {
        let (beside, file) = (self.dir.path().join("offset.new"), self.file());
        fs::write(&beside, seconds.to_string()).expect("the offset can be written");
        fs::rename(&beside, file).expect("the offset can be moved");
    }

    /// What the program is started with.
    pub fn envs(&self) -> [(&'static str, String); 2] {
        let text = |path: &Path| path.to_str().expect("a path is text").to_owned();
        [("LD_PRELOAD", text(&self.library)), ("SHIM_OFFSET", text(&self.file()))]
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("offset")
    }
}

/// Builds one in `dir` and returns where it is, for `LD_PRELOAD`. Whoever builds the program has a C compiler.
///
/// # Panics
/// When the compiler is missing or refuses.
pub fn build(dir: &Path, source: &str) -> PathBuf {
    let (file, library) = (dir.join("shim.c"), dir.join("shim.so"));
    fs::write(&file, source).expect("the source can be written");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&file).arg("-ldl").status();
    assert!(built.is_ok_and(|status| status.success()), "the C compiler builds the library");
    library
}
