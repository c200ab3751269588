//! What a process has used, from `/proc`: Linux only, elsewhere nothing is known.

use std::fs;
use std::time::Duration;

/// The kernel counts processor time for programs in hundredths of a second, whatever its own clock.
const TICK: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) server: Duration,
    /// That of every process called `postgres`, when one works for the server.
    pub(super) postgres: Option<Duration>,
}

impl Times {
    /// Reads them; none where `/proc` does not say.
    pub(super) fn read(server: u32, with_postgres: bool) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{server}/stat")).ok()?;
        let server = Stat::parse(&stat)?.own;
        Some(Self { server, postgres: if with_postgres { all_postgres() } else { None } })
    }

    /// What was used in between.
    pub(super) fn since(self, before: Self) -> Self {
        let postgres = self.postgres.zip(before.postgres).map(|(now, before)| now.saturating_sub(before));
        Self { server: self.server.saturating_sub(before.server), postgres }
    }
}

pub(super) fn resident_kib(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Ended backends count through their parent, so that none is lost in between. None when no process has that name:
/// the database is on another machine.
fn all_postgres() -> Option<Duration> {
    let mut total = None;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(text) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(stat) = Stat::parse(&text).filter(|stat| stat.name == "postgres") {
            total = Some(total.unwrap_or(Duration::ZERO) + stat.own + stat.children);
        }
    }
    total
}

#[derive(Debug, PartialEq, Eq)]
struct Stat<'a> {
    name: &'a str,
    own: Duration,
    children: Duration,
}

impl<'a> Stat<'a> {
    /// The name stands in brackets and may itself hold brackets and spaces.
    fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = (text.split_once('(')?.1).rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
        Some(Self { name, own: TICK * (ticks(11)? + ticks(12)?), children: TICK * (ticks(13)? + ticks(14)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line() {
        let line = "42 (a (b) c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 3 4 20 0 1 0 1 1 1";
        let expected = Stat { name: "a (b) c", own: Duration::from_secs(2), children: Duration::from_millis(70) };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse("42 (x) S 1"), None);
    }

    #[test]
    fn our_own_process_is_found() {
        assert!(Times::read(std::process::id(), false).is_some());
        assert!(resident_kib(std::process::id()).is_some_and(|kib| kib > 100));
    }
}
