//! One load on one server: connections that each send, wait for the answer, and send again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::stripe::Requests;

/// How long it takes until the measured time begins. Repeats begin halfway, so that there is something to repeat.
const WARM_UP: Duration = Duration::from_secs(2);

const FILLING: u8 = 0;
const WARMING: u8 = 1;
const MEASURING: u8 = 2;
const STOPPING: u8 = 3;

/// What is sent, and where.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// Host and port.
    pub address: &'a str,
    /// Where the server takes Stripe's events.
    pub path: &'a str,
    /// How many connections send at once.
    pub connections: usize,
    /// How long is measured.
    pub seconds: u64,
    /// The bytes of a body.
    pub body_size: usize,
    /// How many of 100 events were sent before.
    pub repeat_percent: u8,
}

/// What one load saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Answers that said `accepted`, from the first to the last request.
    pub accepted: u64,
    /// Answers that said `duplicate`.
    pub duplicates: u64,
    /// Events that were sent again.
    pub repeats: u64,
    /// Anything else.
    pub others: u64,
    /// How long each request took that was begun within the measured time and answered with one of the two, in
    /// microseconds.
    pub measured: Vec<u32>,
    /// How long the measured time was.
    pub elapsed: Duration,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Accepted,
    Duplicate,
    Other,
}

/// Runs the load; `at_edges` is called when the measured time begins and when it ends.
pub async fn run<T>(load: &Load<'_>, at_edges: impl AsyncFn() -> T) -> anyhow::Result<(Seen, T, T)> {
    // Ids differ between loads, too.
    static LOADS: AtomicU64 = AtomicU64::new(0);
    let run = u64::from(std::process::id()) << 32 | LOADS.fetch_add(1, Ordering::Relaxed) << 16;
    let phase = Arc::new(AtomicU8::new(FILLING));
    let mut tasks = JoinSet::new();
    for number in 0..load.connections as u64 {
        let requests = Requests::new(load.path, run | number, load.body_size);
        tasks.spawn(run_connection(load.address.to_owned(), requests, load.repeat_percent, phase.clone()));
    }
    let phases = async {
        tokio::time::sleep(WARM_UP / 2).await;
        phase.store(WARMING, Ordering::Relaxed);
        tokio::time::sleep(WARM_UP / 2).await;
        let (before, started) = (at_edges().await, Instant::now());
        phase.store(MEASURING, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(load.seconds)).await;
        phase.store(STOPPING, Ordering::Relaxed);
        let elapsed = started.elapsed();
        anyhow::Ok((before, at_edges().await, elapsed))
    };
    let answers = async {
        let mut seen = Seen::default();
        while let Some(one) = tasks.join_next().await {
            let one = one.context("a connection's task failed")??;
            seen.accepted += one.accepted;
            seen.duplicates += one.duplicates;
            seen.repeats += one.repeats;
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

async fn run_connection(
    address: String,
    mut requests: Requests,
    repeat_percent: u8,
    phase: Arc<AtomicU8>,
) -> anyhow::Result<Seen> {
    let mut stream = TcpStream::connect(&address).await.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(4096);
    let mut seen = Seen::default();
    let mut owed: u32 = 0;
    loop {
        let begun_in = phase.load(Ordering::Relaxed);
        owed += if begun_in == FILLING { 0 } else { u32::from(repeat_percent) };
        let repeats = owed >= 100;
        let request = if repeats { requests.repeat() } else { requests.next() };
        if repeats {
            owed -= 100;
            seen.repeats += 1;
        }
        let started = Instant::now();
        stream.write_all(request).await?;
        let answer = read_answer(&mut stream, &mut buffer).await?;
        let took = u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX);
        match answer {
            Answer::Accepted => seen.accepted += 1,
            Answer::Duplicate => seen.duplicates += 1,
            Answer::Other => seen.others += 1,
        }
        // The one that is under way at the end counts: to leave it out would leave out the slowest.
        if answer != Answer::Other && begun_in == MEASURING {
            seen.measured.push(took);
        }
        if phase.load(Ordering::Relaxed) == STOPPING {
            return Ok(seen);
        }
    }
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<Answer> {
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            bail!("the server closed the connection");
        }
        if let Some(answer) = parse(buffer)? {
            return Ok(answer);
        }
    }
}

/// What an answer says, in our words or in qhook's; none while a part of it is missing.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
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
    let says = |starts: [&str; 2]| starts.iter().any(|start| body.starts_with(start.as_bytes()));
    Ok(Some(if !head.starts_with("HTTP/1.1 200") {
        Answer::Other
    } else if says([r#"{"status":"accepted""#, r#"{"duplicate":false"#]) {
        Answer::Accepted
    } else if says([r#"{"status":"duplicate""#, r#"{"duplicate":true"#]) {
        Answer::Duplicate
    } else {
        Answer::Other
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |text: &str, expected: Option<Answer>| {
            assert_eq!(parse(text.as_bytes()).expect("an answer"), expected, "{text}");
        };
        let accepted = "HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n{\"status\":\"accepted\"}";
        check(accepted, Some(Answer::Accepted));
        check(&accepted[..55], None);
        check("HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\n{\"status\":\"duplicate\"}", Some(Answer::Duplicate));
        check("HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"duplicate\":false}", Some(Answer::Accepted));
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Some(Answer::Other));
        check("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", Some(Answer::Other));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
