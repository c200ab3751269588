//! What figures were measured with: without it they say nothing.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};
use testkit::database::postgres_query;
use testkit::postgres::Cluster;

use crate::args::Args;
use crate::install;

/// Where, when and with what.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Surroundings {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) machine: String,
    /// Names and versions.
    pub(crate) versions: Vec<(String, String)>,
    pub(crate) seconds: u64,
    pub(crate) body_size: usize,
    /// Events, jobs or messages of a queue's measurement.
    pub(crate) jobs: u64,
}

impl Surroundings {
    pub(crate) fn look(args: &Args, cluster: &Cluster) -> anyhow::Result<Self> {
        let ask = |sql: &str| postgres_query(&cluster.url("postgres"), sql).concat().concat();
        let mut versions = vec![
            ("Postgres".to_owned(), ask("show server_version")),
            ("SQLite".to_owned(), rusqlite::version().to_owned()),
            ("rustc".to_owned(), said("rustc", &["--version"], 1)),
            ("Node".to_owned(), said("node", &["--version"], 0)),
            ("Python".to_owned(), said("python3", &["--version"], 1)),
            ("Redis".to_owned(), said("redis-server", &["--version"], 2)),
            ("qhook".to_owned(), install::QHOOK_VERSION.to_owned()),
        ];
        versions.extend(install::node_packages()?);
        versions.extend(install::python_packages()?);
        let (seconds, body_size, jobs) = (args.seconds, args.body_size, args.jobs);
        let date = ask("select to_char(now() at time zone 'utc', 'YYYY-MM-DD')");
        Ok(Self { date, commit: commit(), machine: machine(), versions, seconds, body_size, jobs })
    }

    /// All versions in one line.
    pub(crate) fn versions(&self) -> String {
        let known = self.versions.iter().filter(|(_, version)| !version.is_empty());
        known.map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
    }
}

/// One word of what a program prints about itself; empty where it is missing.
fn said(program: &str, args: &[&str], word: usize) -> String {
    let output = Command::new(program).args(args).output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.split_whitespace().nth(word).unwrap_or_default().trim_start_matches(['v', '=']).to_owned()
}

fn commit() -> String {
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"], 0);
    let is_changed =
        !said("git", &["status", "--porcelain", "--", "crates", "bench/lab", "bench/contest/src"], 0).is_empty();
    if is_changed { format!("{commit} with changes") } else { commit }
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kib = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(kib).unwrap_or_default() / 1024.0 / 1024.0;
    let system = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, {memory:.0} GiB of memory, Linux {}", system.split('-').next().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_programs() {
        assert_eq!(said("echo", &["tool", "v1.2"], 1), "1.2");
        assert_eq!(said("echo", &["Redis server v=7.0.15"], 2), "7.0.15");
        assert_eq!(said("no-such-program", &[], 0), "");
        assert!(machine().contains(" cores, "));
    }

    #[test]
    fn what_is_missing_is_not_listed() {
        let versions = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())];
        assert_eq!(Surroundings { versions, ..Surroundings::default() }.versions(), "a 1");
    }
}
