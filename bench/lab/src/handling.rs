//! `lab handling`: how fast a filled queue is worked off, each effect committed together with its mark.
//!
//! One by one is what a plain job queue does: a claim, an effect and a mark for each delivery, alone or ten at a time. In
//! batches is what the workers do, first with a handler that never fails, then with one event in a thousand failing.
//! `bench/contest` runs this beside other queues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures_util::future::try_join_all;
use oncebox::Clock;
use oncebox::RetryPolicy;
use oncebox::gateway::event::KeyMaker;
use oncebox::gateway::store::{
    Claimed, Commit, Failures, Finished, HandlerSql, NewEvent, NodeEntry, RanEach, Store, Want, insert_events,
};
use oncebox::gateway::wake::Wake;
use oncebox::gateway::worker::handler::{HandlerSpec, OrderRules, Work};
use oncebox::gateway::worker::{Parts, Workers};
use oncebox_verify::{Identified, Identity, IdentityKind, OnOtherBody, OnRepeat, sha256};
use serde_json::json;

use crate::args::QueueArgs;
use crate::database::Database;
use crate::figures::median;

/// Deliveries at once, one by one.
const CONCURRENCY: usize = 10;
const LEASE: Duration = Duration::from_secs(60);
const HANDLER: &str = "bench";
const CREATE: &str = "create table if not exists bench_effects (id text check (id not like '%-000'))";
const EFFECT: &str = "insert into bench_effects (id) values (:event_id)";

/// How deliveries are worked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    OneByOne,
    TenAtOnce,
    Batches,
    BatchesWithFailures,
}

impl Way {
    const ALL: [Self; 4] = [Self::OneByOne, Self::TenAtOnce, Self::Batches, Self::BatchesWithFailures];

    /// For programs.
    fn key(self) -> &'static str {
        match self {
            Self::OneByOne => "one_by_one",
            Self::TenAtOnce => "ten_at_once",
            Self::Batches => "batches",
            Self::BatchesWithFailures => "batches_failing",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one by one",
            Self::TenAtOnce => "one by one, ten at once",
            Self::Batches => "in batches",
            Self::BatchesWithFailures => "in batches, 1 in 1,000 failing",
        }
    }
}

/// Runs the measurement.
pub async fn run(args: &QueueArgs) -> anyhow::Result<String> {
    let (database, _folder) = Database::named_or_temporary(args.database.as_deref())?;
    let bench = Bench::open(&database, args).await?;
    let is_wanted = |way: &Way| !args.batches || matches!(way, Way::Batches | Way::BatchesWithFailures);
    let all: Vec<Way> = Way::ALL.into_iter().filter(is_wanted).collect();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for (way, rates) in all.iter().copied().zip(&mut rates) {
            rates.push(bench.measure(way, round).await?);
        }
    }
    bench.store.close().await;
    let medians: Vec<f64> = rates.iter().map(|rates| median(rates.clone()).unwrap_or_default()).collect();
    let kind = database.kind();
    if args.json {
        let ways = all.iter().copied().zip(&rates).zip(&medians);
        let ways = ways.map(
            |((way, rates), median)| json!({"key": way.key(), "way": way.name(), "median": median, "rounds": rates}),
        );
        let all = json!({"what": format!("handling on {kind}"), "ways": ways.collect::<Vec<_>>()});
        return Ok(serde_json::to_string_pretty(&all)?);
    }
    let head = format!("handling on {kind}: claim, one effect row and done, {} events a run\n", args.events);
    let lines = all.iter().copied().zip(&medians).map(|(way, rate)| format!("{:<34}{rate:>9.0} /s", way.name()));
    Ok(format!("{head}\n{}", lines.collect::<Vec<_>>().join("\n")))
}

struct Bench {
    store: Store,
    clock: Clock,
    keys: KeyMaker,
    sql: Arc<HandlerSql>,
    events: usize,
    body: Bytes,
}

impl Bench {
    async fn open(database: &Database, args: &QueueArgs) -> anyhow::Result<Self> {
        let store = database.open().await?;
        database.connect().await?.execute(CREATE).await.context("cannot make the table of effects")?;
        let sql = Arc::new(HandlerSql::parse(EFFECT, store.dialect())?);
        let events = usize::try_from(args.events).context("too many events")?;
        let body = Bytes::from(vec![b'x'; args.body_size]);
        let bench = Self { store, clock: Clock::system(), keys: KeyMaker::default(), sql, events, body };
        bench.store.register_handlers(&[bench.handler().facts()]).await?;
        Ok(bench)
    }

    async fn measure(&self, way: Way, round: u64) -> anyhow::Result<f64> {
        let fails = |n: usize| way == Way::BatchesWithFailures && n % 1000 == 500;
        let name = format!("{way:?}-{round}-{}", self.keys.make::<()>(self.clock.now()));
        // A tenth is enough of the slowest.
        let events = if way == Way::OneByOne { self.events.div_ceil(10) } else { self.events };
        self.fill(&name, events, fails).await?;
        let started = Instant::now();
        match way {
            Way::OneByOne => self.one_by_one(1).await?,
            Way::TenAtOnce => self.one_by_one(CONCURRENCY).await?,
            Way::Batches | Way::BatchesWithFailures => self.in_batches().await?,
        }
        Ok(events as f64 / started.elapsed().as_secs_f64())
    }

    async fn one_by_one(&self, at_once: usize) -> anyhow::Result<()> {
        let lines = (0..at_once).map(|_| async {
            loop {
                let claimed = self.claim(1).await?;
                if claimed.is_empty() {
                    return anyhow::Ok(());
                }
                self.effect(&claimed).await?;
            }
        });
        try_join_all(lines).await.map(drop)
    }

    async fn in_batches(&self) -> anyhow::Result<()> {
        let node = NodeEntry { node: self.keys.make(self.clock.now()), name: "bench".to_owned() };
        let parts = Parts { store: self.store.clone(), clock: self.clock.clone(), wake: Wake::default(), node };
        let workers = Workers::start(parts, vec![self.handler()]);
        // Counting a long queue again and again would be part of what is measured.
        while !self.store.due(self.clock.now()).await?.handlers.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let depths = self.store.queue_depths().await?;
            let open = depths.iter().filter(|depth| matches!(depth.state.as_str(), "ready" | "claimed"));
            if open.map(|depth| depth.count).sum::<i64>() == 0 {
                break;
            }
        }
        workers.stop(Duration::from_secs(5)).await;
        Ok(())
    }

    fn handler(&self) -> HandlerSpec {
        HandlerSpec {
            name: HANDLER.into(),
            work: Work::Sql(self.sql.clone()),
            lease: LEASE,
            // What fails is dead at once: pauses are not what is measured.
            retry: RetryPolicy { attempts: 1, base: Duration::from_secs(1), cap: Duration::from_secs(1) },
            concurrency: CONCURRENCY,
            rate: None,
            order: OrderRules::default(),
        }
    }

    async fn claim(&self, limit: usize) -> anyhow::Result<Vec<Claimed>> {
        let want = [Want {
            handler: HANDLER.to_owned(),
            limit,
            bytes: oncebox::gateway::limits::CLAIMED_BYTES_MAX,
            lease: LEASE,
            in_order: false,
            payload: false,
        }];
        Ok(self.store.claim(&want, None, self.clock.now()).await?.claimed)
    }

    async fn effect(&self, claimed: &[Claimed]) -> anyhow::Result<()> {
        let (fences, batch): (Vec<_>, Vec<_>) = claimed.iter().map(|one| (one.fence, one)).unzip();
        let mut tx = self.store.begin().await?;
        let ran = tx.run_each(&self.sql, &batch, Failures::Together, LEASE).await?;
        if !matches!(&ran, RanEach::Written(failed) if failed.is_empty()) {
            bail!("the handler failed: {ran:?}");
        }
        match (tx.finish(&fences, self.clock.now()).await?, tx.commit().await) {
            (Finished::All, Commit::Committed) => Ok(()),
            (finished, commit) => bail!("not done: {finished:?}, {commit:?}"),
        }
    }

    async fn fill(&self, name: &str, events: usize, fails: impl Fn(usize) -> bool) -> anyhow::Result<()> {
        let all: Vec<usize> = (0..events).collect();
        for chunk in all.chunks(500) {
            let chunk: Vec<NewEvent> = chunk
                .iter()
                .map(|n| self.event(format!("{name}-{n}{}", if fails(*n) { "-000" } else { "" })))
                .collect();
            let mut tx = self.store.begin().await?;
            insert_events(&mut tx, &chunk.into()).await?;
            if !matches!(tx.commit().await, Commit::Committed) {
                bail!("the queue could not be filled");
            }
        }
        Ok(())
    }

    fn event(&self, id: String) -> NewEvent {
        let now = self.clock.now();
        let event = Identified {
            identity: Identity::of_id(HANDLER, id.as_bytes()),
            identity_kind: IdentityKind::Id,
            fingerprint: None,
            on_repeat: OnRepeat::Run,
            on_other_body: OnOtherBody::Conflict,
            event_id: id,
            event_type: "bench".to_owned(),
            body_sha256: sha256(&self.body),
            body: self.body.clone(),
            held: None,
            id_disagrees: false,
        };
        NewEvent {
            key: self.keys.make(now),
            source: HANDLER.into(),
            event,
            headers: Bytes::new(),
            remote: "127.0.0.1:0".into(),
            received_at: now,
            handlers: vec![HANDLER.into()],
        }
    }
}
