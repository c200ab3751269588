//! The house style as a test, so that reviews can be about the product.
//!
//! Rules that clippy knows (function length, `unwrap`) are left to clippy. Each test collects every finding and
//! shows them all; a rule about files that do not exist yet is satisfied.

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 500;
const README_LINES_MAX: usize = 150;
const ARCHITECTURE_LINES_MAX: usize = 200;

const DOCUMENTS: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Names that say nothing: a thing lives with its behaviour.
const BANNED_NAMES: [&str; 9] = ["mod", "util", "utils", "helper", "helpers", "common", "types", "models", "misc"];

/// Words that only we would understand; behind each the one that a stranger searches for.
const BANNED_WORDS: [(&str, &str); 10] = [
    ("appetite", "claim limit"),
    ("bookkeeper", "arrival recorder"),
    ("closer", "completer"),
    ("desk", "handle, context"),
    ("duty", "delivery"),
    ("errand", "call to a vendor"),
    ("errands", "calls to vendors"),
    ("hungry", "may have work"),
    ("mended", "fixed"),
    ("soiled", "dirty"),
];

/// The parts of each crate in the order in which they depend on one another: each uses only what stands before it, so
/// there are no cycles.
const ORDER: [(&str, &[&str]); 3] = [
    (
        "crates/oncebox-verify/src/",
        &["calendar", "units", "digest", "read", "request", "secret", "verdict", "provider", "source", "tools", "lib"],
    ),
    (
        LIBRARY,
        &[
            "authorities",
            "clock",
            "fault",
            "limits",
            "sealed",
            "shutdown",
            "trace",
            "wake",
            "event",
            "delivery",
            "message",
            "database",
            "vendor",
            "embed",
            "store",
            "ingest",
            "lane",
            "outgoing",
            "worker",
            "relay",
            "retention",
            "gateway",
            "lib",
        ],
    ),
    (
        "crates/oncebox-server/src/",
        &[
            "config",
            "setup",
            "terminal",
            "usage",
            "when",
            "cli",
            "database",
            "observe",
            "query",
            "arming",
            "http",
            "public",
            "admin",
            "dashboard",
            "alert",
            "serve",
            "dev",
            "operator",
            "commands",
            "main",
        ],
    ),
];

const LIBRARY: &str = "crates/oncebox/src/";

#[test]
fn files_are_short() {
    check(|file, findings| {
        let lines = file.text.lines().count();
        let code = [".rs", ".sql", ".sh", ".js", ".css", ".html"].iter().any(|ending| file.path.ends_with(ending));
        if code && lines > FILE_LINES_MAX {
            findings.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", file.path));
        }
    });
}

#[test]
fn modules_have_telling_names() {
    check(|file, findings| {
        let path = file.path.strip_suffix(".rs");
        let parts = path.into_iter().flat_map(|path| path.split('/'));
        for name in parts.filter(|name| BANNED_NAMES.contains(name)) {
            findings.push(format!("{}: `{name}` says nothing", file.path));
        }
    });
}

#[test]
fn words_are_those_of_the_field() {
    check(|file, findings| {
        let ours = file.path.starts_with("crates/") && !file.path.ends_with("/tidy.rs");
        if !ours && !file.path.starts_with("docs/") && file.path != "README.md" {
            return;
        }
        for (nth, line) in file.text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
            for (_, better) in words.filter_map(|word| BANNED_WORDS.iter().find(|(banned, _)| *banned == word)) {
                findings.push(format!("{}:{}: say {better}: {}", file.path, nth + 1, line.trim()));
            }
        }
    });
}

#[test]
fn nothing_is_left_for_later_or_silenced() {
    check(|file, findings| {
        let banned = ["todo!", "unimplemented!", "dbg!", "#[ignore", "#[allow(", "#![allow("];
        for (number, line) in file.rust_lines() {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{number}: {word}", file.path));
            }
        }
    });
}

#[test]
fn sql_stays_in_the_store() {
    check(|file, findings| {
        let Some(module) = file.library_module() else { return };
        if module == "store" || module == "database" {
            return;
        }
        for (number, line) in file.code_lines() {
            let line = line.to_ascii_lowercase();
            let quoted = line.contains('"');
            let statement = ["select ", "insert into ", "delete from "].iter().any(|word| line.contains(word))
                || (line.contains("update ") && line.contains(" set "));
            if quoted && statement {
                findings.push(format!("{}:{number}: SQL outside store/ and database/", file.path));
            }
        }
    });
}

#[test]
fn the_library_is_handed_its_surroundings() {
    check(|file, findings| {
        let excused = file.path.starts_with(&format!("{LIBRARY}store/sqlite")) || file.path.ends_with("/clock.rs");
        if file.library_module().is_none() || excused {
            return;
        }
        let banned = ["std::env", "std::fs", "SystemTime::now", "Instant::now", "tokio::fs"];
        for (number, line) in file.code_lines() {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{number}: {word}", file.path));
            }
        }
    });
}

#[test]
fn modules_depend_downwards() {
    check(|file, findings| {
        for (source, order) in ORDER {
            let Some(module) = file.module_of(source).filter(|_| !file.is_test()) else { continue };
            let Some(place) = order.iter().position(|name| *name == module) else {
                findings.push(format!("{}: `{module}` has no place in the order of its crate", file.path));
                continue;
            };
            for (number, line) in file.code_lines() {
                let is_above = |used: &&str| *used != module && !order[..place].contains(used);
                for used in crate_modules(line).filter(is_above) {
                    findings.push(format!("{}:{number}: `{module}` may not use `{used}`", file.path));
                }
            }
        }
    });
}

#[test]
fn every_sql_file_has_a_user() {
    let files = files();
    let places = ["store.rs", "store/", "database/"].map(|place| format!("{LIBRARY}{place}"));
    let store = |file: &&File| places.iter().any(|place| file.path.starts_with(place));
    let users: String = files.iter().filter(store).map(|file| file.text.as_str()).collect();
    check(|file, findings| {
        let name = file.path.strip_prefix("crates/oncebox/sql/").filter(|name| name.ends_with(".sql"));
        if name.is_some_and(|name| !users.contains(name)) {
            findings.push(format!("{}: not named in store/ or database/", file.path));
        }
    });
}

#[test]
fn the_documents_are_there_and_short() {
    let mut findings = Vec::new();
    for name in DOCUMENTS {
        let text = fs::read_to_string(root().join(name)).unwrap_or_default();
        let max = match name {
            "README.md" => README_LINES_MAX,
            "ARCHITECTURE.md" => ARCHITECTURE_LINES_MAX,
            _ => usize::MAX,
        };
        let lines = text.lines().count();
        if lines == 0 {
            findings.push(format!("{name}: missing"));
        } else if lines > max {
            findings.push(format!("{name}: {lines} lines, at most {max}"));
        }
    }
    report(&findings);
}

#[test]
fn paths_in_the_architecture_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    let places =
        ["", "crates", "crates/oncebox", "crates/oncebox/src", "crates/oncebox-server", "crates/oncebox-server/src"];
    let exists = |path: &str| places.iter().any(|place| root().join(place).join(path).exists());
    let missing: Vec<_> = quoted(&text)
        .filter(|word| is_path(word) && !exists(word))
        .map(|path| format!("ARCHITECTURE.md: no `{path}`"))
        .collect();
    report(&missing);
}

#[test]
fn the_tree_knows_no_single_machine() {
    check(|file, findings| {
        let homes = ["root", "work", "home"].map(|folder| format!("/{folder}/"));
        for (number, line) in file.text.lines().enumerate() {
            if homes.iter().any(|home| line.contains(home)) {
                findings.push(format!("{}:{}: a path of one machine", file.path, number + 1));
            }
        }
    });
}

#[test]
fn the_test_kit_is_for_tests_only() {
    check(|file, findings| {
        // The benches are never published, and start servers as tests do.
        if !file.path.ends_with("Cargo.toml")
            || ["Cargo.toml", "bench/contest/Cargo.toml", "bench/lab/Cargo.toml"].contains(&file.path.as_str())
        {
            return;
        }
        let mut section = "";
        for line in file.text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            if line.starts_with("testkit") && section != "[dev-dependencies]" {
                findings.push(format!("{}: testkit under {section}", file.path));
            }
        }
    });
}

struct File {
    /// From the root, with forward slashes.
    path: String,
    text: String,
}

impl File {
    /// Numbered lines of a Rust file.
    fn rust_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let text = if self.path.ends_with(".rs") { self.text.as_str() } else { "" };
        text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The same without comments and without the tests at the end.
    fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = self.rust_lines().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
        code.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Whether it holds the tests of the module above it.
    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// The top module of a crate, by its folder, that this file belongs to.
    fn module_of(&self, source: &str) -> Option<&str> {
        let path = self.path.strip_prefix(source)?.strip_suffix(".rs")?;
        path.split('/').next()
    }

    /// The same of the library.
    fn library_module(&self) -> Option<&str> {
        self.module_of(LIBRARY)
    }
}

/// Runs a rule over every file but this one, which names what it forbids.
fn check(rule: impl Fn(&File, &mut Vec<String>)) {
    let mut findings = Vec::new();
    for file in files().iter().filter(|file| !file.path.ends_with("tests/it/tidy.rs")) {
        rule(file, &mut findings);
    }
    report(&findings);
}

fn report(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every text file of the tree, build products left out.
fn files() -> Vec<File> {
    let (mut folders, mut found) = (vec![root()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the tree can be read").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            // In a worktree `.git` is a file.
            if ["target", "node_modules", ".git"].iter().any(|skip| name == *skip) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root()).expect("it is below the root").to_string_lossy().into_owned();
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 10, "the tree was not found");
    found
}

/// Names behind `crate::` in a line, also inside braces.
fn crate_modules(line: &str) -> impl Iterator<Item = &str> {
    let word = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let uses = line.split("crate::").skip(1);
    uses.flat_map(|rest| rest.strip_prefix('{').map_or_else(|| vec![rest], |list| list.split(", ").collect()))
        .map(move |rest| &rest[..word(rest)])
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether a quoted word is meant as a place in the tree.
fn is_path(word: &str) -> bool {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let endings = [".rs", ".sql", ".toml", ".md", ".sh", ".html", ".js", ".css", "/"];
    plain && word.contains('/') && !word.starts_with('/') && endings.iter().any(|ending| word.ends_with(ending))
}
