//! `lab relay`: how fast a filled outbox goes out to a receiver on this machine, and how fast the same client
//! posts the same bytes, headers included, without any outbox, in turns: the share that claiming and marking leave.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use oncebox::RetryPolicy;
use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::event::KeyMaker;
use oncebox::gateway::outgoing::{Call, Outgoing, Policy, Settings, Target};
use oncebox::gateway::relay::{DestinationSpec, Parts, Relay};
use oncebox::gateway::store::{NodeEntry, Store};
use oncebox::gateway::wake::Wake;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::types::ToSql;

use crate::args::QueueArgs;
use crate::database::{Connection, Database};
use crate::figures::median;

/// Calls at once, in both ways.
const CONCURRENCY: usize = 32;
const DESTINATION: &str = "bench";
const TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Messages in one transaction while the outbox is filled.
const FILL: usize = 500;

/// Runs the measurement.
pub async fn run(args: &QueueArgs) -> anyhow::Result<String> {
    let (database, _folder) = Database::named_or_temporary(args.database.as_deref())?;
    let mut bench = Bench::open(&database, args).await?;
    let (mut bare, mut relayed) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        bare.push(bench.bare().await?);
        relayed.push(bench.relayed().await?);
    }
    bench.store.close().await;
    let of = |rates: &[f64]| median(rates.to_vec()).unwrap_or_default();
    let (kind, bare_median, relayed_median) = (database.kind(), of(&bare), of(&relayed));
    let ratio = relayed_median / bare_median;
    if args.json {
        let all = json!({
            "what": format!("relay on {kind}"), "messages": args.events, "concurrency": CONCURRENCY,
            "bare": {"median": bare_median, "rounds": bare}, "relay": {"median": relayed_median, "rounds": relayed},
            "ratio": ratio,
        });
        return Ok(serde_json::to_string_pretty(&all)?);
    }
    Ok(format!(
        "relay on {kind}: claim, call and mark, {} messages a run, {CONCURRENCY} calls at once\n\n\
         {:<34}{bare_median:>9.0} /s\n{:<34}{relayed_median:>9.0} /s\n{:<34}{ratio:>9.2}",
        args.events, "the client alone", "the relay", "ratio",
    ))
}

struct Bench {
    store: Store,
    /// Fills the outbox, as an application would.
    connection: Connection,
    clock: Clock,
    keys: KeyMaker,
    messages: usize,
    body: Bytes,
    client: Outgoing,
    target: Target,
    received: Arc<AtomicUsize>,
}

impl Bench {
    async fn open(database: &Database, args: &QueueArgs) -> anyhow::Result<Self> {
        let store = database.open().await?;
        let connection = database.connect().await?;
        let received = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let target = Target::parse(&format!("http://{}/", listener.local_addr()?))?;
        tokio::spawn(receive(listener, received.clone()));
        let policy = Policy::Operator { allow: Vec::new() };
        let client = Outgoing::new(Settings { policy, authorities: Vec::new(), hosts: HashMap::new() })?;
        let messages = usize::try_from(args.events).context("too many messages")?;
        let body = Bytes::from(vec![b'x'; args.body_size]);
        let (clock, keys) = (Clock::system(), KeyMaker::default());
        Ok(Self { store, connection, clock, keys, messages, body, client, target, received })
    }

    /// The client alone, in as many loops as the relay makes calls at once.
    async fn bare(&self) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let left = Arc::new(AtomicUsize::new(self.messages));
        let mut loops = tokio::task::JoinSet::new();
        for _ in 0..CONCURRENCY {
            let (client, target, body, left) =
                (self.client.clone(), self.target.clone(), self.body.clone(), left.clone());
            let (clock, keys) = (self.clock.clone(), KeyMaker::default());
            loops.spawn(async move {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    let (target, body, headers) = (target.clone(), body.clone(), headers(&keys, clock.now())?);
                    client.send(Call { method: Method::POST, target, headers, body, deadline: TIMEOUT }).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = loops.join_next().await {
            ended??;
        }
        Ok(self.messages as f64 / begun.elapsed().as_secs_f64())
    }

    /// A filled outbox, until every message is received and marked.
    async fn relayed(&mut self) -> anyhow::Result<f64> {
        self.fill().await?;
        let before = self.received.load(Ordering::Relaxed);
        let begun = Instant::now();
        let (store, clock, wake) = (self.store.clone(), self.clock.clone(), Wake::default());
        let node = NodeEntry { node: self.keys.make(clock.now()), name: "bench".to_owned() };
        let relay = Relay::start(Parts { store, clock, wake, node }, vec![self.destination()]);
        while self.received.load(Ordering::Relaxed) < before + self.messages {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Stopping waits for the last marks.
        relay.stop(TIMEOUT).await;
        let rate = self.messages as f64 / begun.elapsed().as_secs_f64();
        let left = self.store.outbox_depths().await?;
        if !left.is_empty() { bail!("messages are left: {left:?}") } else { Ok(rate) }
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        for start in (0..self.messages).step_by(FILL) {
            let count = FILL.min(self.messages - start);
            match &mut self.connection {
                Connection::Sqlite(connection) => {
                    let tx = connection.transaction()?;
                    for _ in 0..count {
                        tx.execute(include_str!("../sql/sqlite/send.sql"), (DESTINATION, &self.body[..]))?;
                    }
                    tx.commit()?;
                }
                Connection::Postgres(client) => {
                    let values: [&(dyn ToSql + Sync); 3] = [&DESTINATION, &&self.body[..], &i64::try_from(count)?];
                    client.query(include_str!("../sql/postgres/send.sql"), &values).await?;
                }
            }
        }
        Ok(())
    }

    fn destination(&self) -> DestinationSpec {
        DestinationSpec {
            name: DESTINATION.into(),
            target: self.target.clone(),
            client: self.client.clone(),
            headers: HeaderMap::new(),
            signing: None,
            timeout: TIMEOUT,
            concurrency: CONCURRENCY,
            rate: None,
            retry: RetryPolicy::default(),
            retry_on: Vec::new(),
            ordered: false,
        }
    }
}

/// What a careful loop of one's own would send with a body: the headers of a relayed call.
fn headers(keys: &KeyMaker, now: UnixMillis) -> anyhow::Result<HeaderMap> {
    let key = HeaderValue::from_str(&keys.make::<()>(now).to_string())?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("webhook-id", key.clone());
    headers.insert("webhook-timestamp", HeaderValue::from(now / 1000));
    headers.insert("idempotency-key", key);
    headers.insert("oncebox-attempt", HeaderValue::from(1));
    Ok(headers)
}

/// The receiver: reads whole requests and answers each with the same few bytes.
async fn receive(listener: TcpListener, received: Arc<AtomicUsize>) {
    while let Ok((stream, _)) = listener.accept().await {
        let received = received.clone();
        tokio::spawn(async move {
            // A connection that breaks shows as messages that never arrive.
            let _ = answer(stream, &received).await;
        });
    }
}

async fn answer(stream: TcpStream, received: &AtomicUsize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    let mut length = 0;
    while stream.read_line(&mut line).await? > 0 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            body.resize(length, 0);
            stream.read_exact(&mut body).await?;
            received.fetch_add(1, Ordering::Relaxed);
            stream.write_all(ANSWER).await?;
        }
        line.clear();
    }
    Ok(())
}
