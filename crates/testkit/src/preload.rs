//! Small libraries in C that a program is started with, in front of the system's: a clock that is off, a disk that fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
