//! Processor time and memory, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// The kernel counts processor time for programs in hundredths of a second, whatever its own clock.
const TICK: Duration = Duration::from_millis(10);

struct Stat {
    parent: u32,
    own: Duration,
    ended_children: Duration,
}

/// Processor time that a process has used so far.
pub fn of_process(process: u32) -> Duration {
    read(process).map_or(Duration::ZERO, |stat| stat.own)
}

/// That of the server behind a Postgres session: the session's parent and all its children, ended ones too.
pub fn of_postgres(backend: u32) -> Duration {
    let Some(postmaster) = read(backend).map(|stat| stat.parent) else { return Duration::ZERO };
    let all = all();
    let is_ours = |(process, stat): &(&u32, &Stat)| **process == postmaster || stat.parent == postmaster;
    let ended = all.get(&postmaster).map_or(Duration::ZERO, |stat| stat.ended_children);
    all.iter().filter(is_ours).map(|(_, stat)| stat.own).sum::<Duration>() + ended
}

/// Resident memory in MiB.
pub fn resident_mib(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Bytes that a process has sent to disk.
pub fn written_bytes(process: u32) -> Option<i64> {
    let io = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn all() -> HashMap<u32, Stat> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|process| Some((process, read(process)?))).collect()
}

fn read(process: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The name stands in brackets and may itself hold brackets and spaces.
fn parse(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| Some(TICK * fields.get(at)?.parse::<u32>().ok()?);
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: ticks(11)? + ticks(12)?,
        ended_children: ticks(13)? + ticks(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line() {
        let stat = parse("42 (a (b) c) S 7 42 42 0 -1 4194560 1 0 0 0 150 50 3 4 20 0 1 0 1 1 1").expect("a line");
        assert_eq!((stat.parent, stat.own), (7, Duration::from_secs(2)));
        assert_eq!(stat.ended_children, Duration::from_millis(70));
        assert!(parse("42 (x) S 1").is_none());
    }

    #[test]
    fn our_own_process_is_found() {
        assert!(resident_mib(std::process::id()) > 1.0);
        assert!(written_bytes(std::process::id()).is_some());
        assert!(read(std::process::id()).is_some_and(|stat| stat.parent > 0));
    }
}
