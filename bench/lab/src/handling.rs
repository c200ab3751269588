//! `oncebox bench --handling`: how fast a filled queue is worked off, each effect committed together with its mark.
//!
//! One by one is what a plain job queue does: a claim, an effect and a mark for each delivery, alone or ten at a time. In
//! batches is what the workers do, first with a handler that never fails, then with one event in a thousand failing.
//! `bench/graphile/compare.mjs` runs this beside another queue.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use oncebox::clock::Clock;
use oncebox::event::{Identity, IdentityKind, KeyMaker, sha256};
use oncebox::handler::{HandlerSpec, OrderRules, Work};
use oncebox::retry::RetryPolicy;
use oncebox::store::{
    Access, Claimed, Commit, Finished, HandlerSql, NewEvent, NodeEntry, Ran, Store, Want, insert_events,
};
use oncebox::verdict::{Identified, OnOtherBody, OnRepeat};
use oncebox::wake::Wake;
use oncebox::worker::{Parts, Workers};
use serde_json::json;

use super::kind;
use crate::cli::send::BenchArgs;
use crate::config::store::StoreUrl;
use crate::database;
use crate::terminal::{self, Progress};

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
pub(super) async fn run(args: &BenchArgs, url: &StoreUrl) -> anyhow::Result<ExitCode> {
    let bench = Bench::open(url, args).await?;
    let mut progress = Progress::of_long_steps(args.rounds * Way::ALL.len() as u64, "runs");
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); Way::ALL.len()];
    for round in 0..args.rounds {
        for (way, rates) in Way::ALL.into_iter().zip(&mut rates) {
            rates.push(bench.measure(way, round).await?);
            progress.step();
        }
    }
    drop(progress);
    bench.store.close().await;
    let medians: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
    if args.json {
        let ways = Way::ALL.into_iter().zip(&rates).zip(&medians);
        let ways = ways.map(
            |((way, rates), median)| json!({"key": way.key(), "way": way.name(), "median": median, "rounds": rates}),
        );
        terminal::print_json(&json!({"what": format!("handling on {}", kind(url)), "ways": ways.collect::<Vec<_>>()}))?;
    } else {
        let head = format!("handling on {}: claim, one effect row and done, {} events a run\n", kind(url), args.events);
        let lines = Way::ALL.into_iter().zip(&medians).map(|(way, rate)| format!("{:<34}{rate:>9.0} /s", way.name()));
        terminal::print(format!("{head}\n{}", lines.collect::<Vec<_>>().join("\n")))?;
    }
    Ok(ExitCode::SUCCESS)
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
    async fn open(url: &StoreUrl, args: &BenchArgs) -> anyhow::Result<Self> {
        let store = database::open(&database::config_of(url), Access::Server).await?;
        store.migrate().await.context("cannot bring the schema up to date")?;
        let sql = Arc::new(HandlerSql::parse(EFFECT, store.dialect())?);
        let events = usize::try_from(args.events).context("too many events")?;
        let body = Bytes::from(vec![b'x'; args.body_size]);
        let bench = Self { store, clock: Clock::system(), keys: KeyMaker::default(), sql, events, body };
        bench.store.register_handlers(&[bench.handler().facts()]).await?;
        bench.create_table().await?;
        Ok(bench)
    }

    /// Handlers are the one way into the database, so a delivery makes the table.
    async fn create_table(&self) -> anyhow::Result<()> {
        self.fill("table", 1, |_| false).await?;
        let claimed = self.claim(1).await?;
        let create = HandlerSql::parse(CREATE, self.store.dialect())?;
        self.effect(&create, &claimed).await
    }

    async fn measure(&self, way: Way, round: u64) -> anyhow::Result<f64> {
        let fails = |n: usize| way == Way::BatchesWithFailures && n % 1000 == 500;
        let name = format!("{way:?}-{round}-{}", self.keys.make(self.clock.now()));
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
                self.effect(&self.sql, &claimed).await?;
            }
        });
        for line in join_all(lines).await {
            line?;
        }
        Ok(())
    }

    async fn in_batches(&self) -> anyhow::Result<()> {
        let node = NodeEntry { node: self.keys.make(self.clock.now()), name: "bench".to_owned() };
        let parts = Parts { store: self.store.clone(), clock: self.clock.clone(), wake: Wake::default(), node };
        let workers = Workers::start(parts, vec![self.handler()]);
        // Counting a long queue again and again would be part of what is measured.
        while !self.store.due(self.clock.now()).await?.handlers.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
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
            bytes: oncebox::limits::CLAIMED_BYTES_MAX,
            lease: LEASE,
            in_order: false,
        }];
        Ok(self.store.claim(&want, None, self.clock.now()).await?.claimed)
    }

    async fn effect(&self, sql: &HandlerSql, claimed: &[Claimed]) -> anyhow::Result<()> {
        let fences: Vec<_> = claimed.iter().map(|one| one.fence).collect();
        let mut tx = self.store.begin().await?;
        if let Ran::Failed { error, .. } = tx.run_handler(sql, claimed, LEASE).await? {
            bail!("the handler failed: {error}");
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

/// Runs futures side by side on this task: what they share is borrowed.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                std::task::Poll::Ready(value) => *output = Some(value),
                std::task::Poll::Pending => pending = true,
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

pub(super) fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
