//! Group commit: requests that arrive during a commit share the next one.
//!
//! No timer: while one commit is under way the next batch gathers, so an idle inbox answers in one flush and a busy one
//! shares it. Answers go out after the commit, never before. Loop, step and SQL are apart: this file is the loop and
//! the step, `Store::insert` is the rest.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;

use super::arrival_recorder::{self, Entry};
use super::{Ingest, SenderClock, metric};
use crate::clock::{Clock, Countdown};
use crate::event::KeyMaker;
use crate::limits::{BATCH_BYTES_MAX, SETTLED_MAX, STANDBY_WAIT, WAITING_MAX, WRITE_WAIT};
use crate::store::{Inserted, NewEvent, Settled, Store, StoreError};
use crate::wake::Wake;

/// One request's events, and where its answer goes.
#[derive(Debug)]
pub(super) struct Submission {
    events: Vec<NewEvent>,
    answer: oneshot::Sender<Stored>,
}

impl Submission {
    pub(super) fn new(events: Vec<NewEvent>) -> (Self, oneshot::Receiver<Stored>) {
        let (answer, wait) = oneshot::channel();
        (Self { events, answer }, wait)
    }

    pub(super) fn events(&self) -> &[NewEvent] {
        &self.events
    }

    fn bytes(&self) -> usize {
        self.events.iter().map(|new| new.event.body.len()).sum()
    }
}

/// What became of a submission.
#[derive(Debug)]
pub(super) enum Stored {
    Committed(Vec<Inserted>),
    Failed,
    Unknown,
}

/// How commits are shared.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Requests in one commit.
    pub batch: usize,
    /// Commits under way at once; SQLite has one writer whatever this says.
    pub writers: usize,
}

/// The running writers and their arrival recorder.
#[derive(Debug)]
pub struct Batcher(JoinSet<()>);

impl Batcher {
    /// Starts the writers, with nobody to wake. They end when the last [`Ingest`] is dropped.
    pub fn start(store: Store, settings: Settings, clock: Clock, keys: Arc<KeyMaker>) -> (Ingest, Self) {
        Self::start_waking(store, settings, clock, keys, Wake::default())
    }

    /// Starts the writers, which tell after each commit which handlers have something to do.
    pub fn start_waking(
        store: Store,
        settings: Settings,
        clock: Clock,
        keys: Arc<KeyMaker>,
        wake: Wake,
    ) -> (Ingest, Self) {
        let (submissions, receiver) = mpsc::channel(WAITING_MAX);
        let queue = Arc::new(Mutex::new(Queue { receiver, ahead: None }));
        let (records, settled) = mpsc::channel(SETTLED_MAX);
        let mut tasks = JoinSet::new();
        let unconfirmed = Arc::new(AtomicBool::new(false));
        for _ in 0..settings.writers.max(1) {
            let (store, records, wake) = (store.clone(), records.clone(), wake.clone());
            let unconfirmed = unconfirmed.clone();
            let writer = Writer { store, unconfirmed, records, wake, batch_max: settings.batch.max(1) };
            tasks.spawn(writer.run(queue.clone()));
        }
        tasks.spawn(arrival_recorder::run(store, settled));
        (
            Ingest {
                submissions,
                clock,
                keys,
                vendors: Arc::default(),
                sender_clock: SenderClock::default(),
                secret_matches: metric::SecretMatches::default(),
            },
            Self(tasks),
        )
    }

    /// Waits until a writer or the arrival recorder ends, which none does while there is an [`Ingest`]: it broke, and what is
    /// submitted now may never be answered.
    pub async fn failed(&mut self) {
        let ended = self.0.join_next().await;
        tracing::error!("a writer of the ingest path ended: {ended:?}");
    }

    /// Waits until everything submitted is answered and counted. Drop every [`Ingest`] first.
    pub async fn finish(mut self) {
        // The writers end with the last submission, the arrival recorder with the last writer.
        while self.0.join_next().await.is_some() {}
    }
}

/// What waits for a commit. One writer at a time gathers.
struct Queue {
    receiver: mpsc::Receiver<Submission>,
    /// Taken out of the channel but too large for the batch it was met by.
    ahead: Option<Submission>,
}

impl Queue {
    /// Waits for one; none when nobody can submit any more.
    async fn next(&mut self) -> Option<Submission> {
        match self.ahead.take() {
            Some(ahead) => Some(ahead),
            None => self.receiver.recv().await,
        }
    }

    /// Waits for the first, then takes all that is there, up to the limits. Empty when nobody can submit any more.
    async fn gather(&mut self, batch_max: usize) -> Vec<Submission> {
        let Some(first) = self.next().await else { return Vec::new() };
        let mut bytes = first.bytes();
        let mut batch = vec![first];
        while batch.len() < batch_max {
            let Ok(next) = self.receiver.try_recv() else { break };
            bytes += next.bytes();
            if bytes > BATCH_BYTES_MAX {
                self.ahead = Some(next);
                break;
            }
            batch.push(next);
        }
        batch
    }
}

struct Writer {
    store: Store,
    /// No standby confirmed the last commit that waited for one.
    unconfirmed: Arc<AtomicBool>,
    records: mpsc::Sender<Vec<Entry>>,
    wake: Wake,
    batch_max: usize,
}

impl Writer {
    async fn run(self, queue: Arc<Mutex<Queue>>) {
        loop {
            let batch = queue.lock().await.gather(self.batch_max).await;
            if batch.is_empty() {
                return;
            }
            self.settle(batch, &queue).await;
        }
    }

    /// Commits what was gathered and answers everybody. Events with a second referee take a transaction of their own, so that
    /// the others need one round trip only.
    async fn settle(&self, gathered: Vec<Submission>, queue: &Mutex<Queue>) {
        let (simple, other) =
            gathered.into_iter().partition(|submission| submission.events.iter().all(NewEvent::has_one_referee));
        let (simple, other) = (Batch::of(simple), Batch::of(other));
        let is_first = simple.waiting.is_empty();
        if !is_first {
            self.settle_batch(simple, queue).await;
        }
        if other.waiting.is_empty() {
            return;
        }
        // Nobody waits behind a batch that is not confirmed.
        match is_first || !self.unconfirmed.load(Ordering::Relaxed) {
            true => self.settle_batch(other, queue).await,
            false => other.send(|| Stored::Failed),
        }
    }

    async fn settle_batch(&self, batch: Batch, queue: &Mutex<Queue>) {
        let events = batch.events.clone();
        let mut commit = pin!(self.commit(&events));
        if self.unconfirmed.load(Ordering::Relaxed) {
            return self.refuse_others(commit, batch, queue).await;
        }
        match tokio::time::timeout(STANDBY_WAIT, commit.as_mut()).await {
            Ok(outcome) => self.answer_each(batch, outcome).await,
            Err(_) if self.store.waits_for_standby().await => {
                tracing::error!(
                    "commits wait for a standby that does not confirm them; requests are refused until a commit is confirmed"
                );
                self.unconfirmed.store(true, Ordering::Relaxed);
                let rest = batch.answer_unknown();
                self.refuse_others(commit, rest, queue).await;
            }
            Err(_) => self.answer_each(batch, commit.await).await,
        }
    }

    /// While no standby confirms, one batch tries and all others are refused at once: nobody waits behind it, and senders
    /// come again.
    async fn refuse_others(
        &self,
        mut commit: Pin<&mut impl Future<Output = Outcome>>,
        mut batch: Batch,
        queue: &Mutex<Queue>,
    ) {
        let mut queue = queue.lock().await;
        let mut patience = pin!(tokio::time::sleep(STANDBY_WAIT));
        let outcome = loop {
            tokio::select! {
                outcome = commit.as_mut() => break outcome,
                () = patience.as_mut(), if !batch.waiting.is_empty() => batch = batch.answer_unknown(),
                Some(submission) = queue.next() => Batch::of(vec![submission]).send(|| Stored::Failed),
            }
        };
        drop(queue);
        if let Ok(Settled::Committed(_)) = &outcome
            && self.unconfirmed.swap(false, Ordering::Relaxed)
        {
            tracing::info!("commits are confirmed again");
        }
        // Those that nobody waits for any more are told of by their sender's next try.
        if !batch.waiting.is_empty() || matches!(outcome, Ok(Settled::Committed(_))) {
            self.answer(batch, outcome);
        }
    }

    /// A batch that the database refuses is tried one by one, so that a poisonous event hurts only itself.
    async fn answer_each(&self, batch: Batch, outcome: Outcome) {
        match outcome {
            Err(error) if !error.is_transient() && batch.waiting.len() > 1 => {
                tracing::warn!("a batch of {} was refused, trying one by one: {}", batch.waiting.len(), error.chain());
                for one in batch.one_by_one() {
                    let outcome = self.commit(&one.events).await;
                    self.answer(one, outcome);
                }
            }
            outcome => self.answer(batch, outcome),
        }
    }

    /// One commit. Busy is tried once more: the lock or the deadlock's victim is free by then. So is one whose session was
    /// lost, while the sender still waits: those that were lost with it are known by now. Where it was committed all the
    /// same, the second try finds the rows under our own keys.
    async fn commit(&self, events: &Arc<[NewEvent]>) -> Outcome {
        let countdown = Countdown::from(WRITE_WAIT);
        let is_repeatable = events.iter().all(NewEvent::has_one_referee);
        let outcome = self.try_commit(events, WRITE_WAIT).await;
        let lost = match &outcome {
            Err(StoreError::Busy(_)) => return self.try_commit(events, WRITE_WAIT).await,
            Err(error) => error,
            Ok(Settled::Unknown(error)) if is_repeatable => error,
            Ok(_) => return outcome,
        };
        if !lost.is_session_lost() || countdown.left() <= WRITE_WAIT / 2 {
            return outcome;
        }
        tracing::warn!("a batch of {} is tried on another connection: {}", events.len(), lost.chain());
        self.try_commit(events, countdown.left()).await
    }

    /// Somebody else's slow statements may stand before ours; a sender waits only so long.
    async fn try_commit(&self, events: &Arc<[NewEvent]>, wait: Duration) -> Outcome {
        let unknown = |elapsed: Elapsed| Ok(Settled::Unknown(StoreError::Disconnected(elapsed.into())));
        tokio::time::timeout(wait, self.store.insert(events)).await.unwrap_or_else(unknown)
    }

    fn answer(&self, batch: Batch, outcome: Outcome) {
        let requests = batch.waiting.len();
        match outcome {
            Ok(Settled::Committed(outcomes)) => self.answer_committed(batch, &outcomes),
            Ok(Settled::Unknown(error)) => {
                tracing::error!("the result of a commit of {requests} requests is unknown: {}", error.chain());
                batch.send(|| Stored::Unknown);
            }
            Err(error) => {
                tracing::error!("{requests} requests could not be stored: {}", error.chain());
                batch.send(|| Stored::Failed);
            }
        }
    }

    /// Answers first; log lines and arrivals are recorded meanwhile, and the next commit begins.
    fn answer_committed(&self, batch: Batch, outcomes: &[Inserted]) {
        let settled = || batch.events.iter().zip(outcomes);
        let mut own = outcomes;
        for Waiting { events, answer } in batch.waiting {
            let (these, later) = own.split_at(events);
            own = later;
            // Nobody waits only when the client hung up; the event is stored all the same.
            let _ = answer.send(Stored::Committed(these.to_vec()));
        }
        let fresh = settled().filter(|(_, inserted)| inserted.is_runnable());
        self.wake.handlers(fresh.flat_map(|(new, _)| new.handlers.iter().map(|delivery| &delivery.handler)));
        metric::stored(&batch.events, outcomes);
        let entries = settled().map(|(new, inserted)| Entry::new(new, *inserted)).collect();
        // Never waited for: a line in the log and an arrival count may be lost, an acknowledgement may not be late.
        if let Err(error) = self.records.try_send(entries) {
            tracing::warn!("dropped the log lines and arrival counts of one batch: {error}");
        }
    }
}

type Outcome = Result<Settled<Vec<Inserted>>, StoreError>;

/// The events of several requests, and who waits for them.
struct Batch {
    events: Arc<[NewEvent]>,
    waiting: Vec<Waiting>,
}

/// A request: how many of the batch's events are its own, and where its answer goes.
struct Waiting {
    events: usize,
    answer: oneshot::Sender<Stored>,
}

impl Batch {
    fn of(submissions: Vec<Submission>) -> Self {
        let mut events = Vec::with_capacity(submissions.len());
        let mut waiting = Vec::with_capacity(submissions.len());
        for submission in submissions {
            waiting.push(Waiting { events: submission.events.len(), answer: submission.answer });
            events.extend(submission.events);
        }
        Self { events: events.into(), waiting }
    }

    fn one_by_one(self) -> impl Iterator<Item = Self> {
        let mut from = 0;
        self.waiting.into_iter().map(move |one| {
            let events = self.events[from..from + one.events].into();
            from += one.events;
            Self { events, waiting: vec![one] }
        })
    }

    /// Tells everybody that nothing is known yet; the events stay.
    fn answer_unknown(self) -> Self {
        let events = self.events.clone();
        self.send(|| Stored::Unknown);
        Self { events, waiting: Vec::new() }
    }

    fn send(self, answer: impl Fn() -> Stored) {
        metric::unavailable(&self.events);
        for waiting in self.waiting {
            let _ = waiting.answer.send(answer());
        }
    }
}
