//! One load on one server: connections that each send, wait for the answer, and send again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::stripe::Requests;

const WARM_UP: Duration = Duration::from_secs(2);

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPING: u8 = 2;

/// What one load saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Answers that said `accepted`, from the first to the last request.
    pub accepted: u64,
    /// Those of requests that were begun within the measured time, with how long each took, in microseconds.
    pub measured: Vec<u32>,
    /// Anything but `accepted`.
    pub others: u64,
    /// How long the measured time was.
    pub elapsed: Duration,
}

/// Runs the load; `at_edges` is called when the measured time begins and when it ends.
pub async fn run<T>(
    address: &str,
    connections: usize,
    seconds: u64,
    body_size: usize,
    at_edges: impl AsyncFn() -> T,
) -> anyhow::Result<(Seen, T, T)> {
    // Ids differ between loads, too.
    static LOADS: AtomicU64 = AtomicU64::new(0);
    let run = u64::from(std::process::id()) << 32 | LOADS.fetch_add(1, Ordering::Relaxed) << 16;
    let phase = Arc::new(AtomicU8::new(WARMING));
    let mut tasks = JoinSet::new();
    for number in 0..connections as u64 {
        let requests = Requests::new(run | number, body_size);
        tasks.spawn(run_connection(address.to_owned(), requests, phase.clone()));
    }
    let phases = async {
        tokio::time::sleep(WARM_UP).await;
        let (before, started) = (at_edges().await, Instant::now());
        phase.store(MEASURING, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        phase.store(STOPPING, Ordering::Relaxed);
        let elapsed = started.elapsed();
        anyhow::Ok((before, at_edges().await, elapsed))
    };
    let answers = async {
        let mut seen = Seen::default();
        while let Some(one) = tasks.join_next().await {
            let one = one.context("a connection's task failed")??;
            seen.accepted += one.accepted;
            seen.others += one.others;
            seen.measured.extend(one.measured);
        }
        anyhow::Ok(seen)
    };
    // A connection that fails ends the load at once.
    let ((before, after, elapsed), mut seen) = tokio::try_join!(phases, answers)?;
    seen.elapsed = elapsed;
    Ok((seen, before, after))
}

async fn run_connection(address: String, mut requests: Requests, phase: Arc<AtomicU8>) -> anyhow::Result<Seen> {
    let mut stream = TcpStream::connect(&address).await.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    let mut seen = Seen::default();
    loop {
        let request = requests.next();
        let (begun_in, started) = (phase.load(Ordering::Relaxed), Instant::now());
        stream.write_all(request).await?;
        buffer.clear();
        let accepted = loop {
            if stream.read_buf(&mut buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(accepted) = parse(&buffer)? {
                break accepted;
            }
        };
        let took = u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX);
        if accepted {
            seen.accepted += 1;
        } else {
            seen.others += 1;
        }
        // The one that is under way at the end counts: to leave it out would leave out the slowest.
        if accepted && begun_in == MEASURING {
            seen.measured.push(took);
        }
        if phase.load(Ordering::Relaxed) == STOPPING {
            return Ok(seen);
        }
    }
}

/// Whether an answer says `accepted`; none while a part of it is missing.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<bool>> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).context("the answer is no HTTP")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = &bytes[end + 4..];
    if body.len() < length.context("the answer has no length")? {
        return Ok(None);
    }
    Ok(Some(head.starts_with("HTTP/1.1 200") && body.starts_with(br#"{"status":"accepted""#)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |text: &str, expected: Option<bool>| {
            assert_eq!(parse(text.as_bytes()).expect("an answer"), expected, "{text}");
        };
        let accepted = "HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{\"status\":\"accepted\"}";
        check(accepted, Some(true));
        check(&accepted[..55], None);
        check("HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\n{\"status\":\"duplicate\"}", Some(false));
        check("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", Some(false));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
