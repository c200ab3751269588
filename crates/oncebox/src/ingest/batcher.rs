//! Group commit: requests that arrive during a commit share the next one.
//!
//! No timer: while one commit is under way the next batch gathers, so an idle inbox answers in one flush and a busy one
//! shares it. Answers go out after the commit, never before. Loop, step and SQL are apart: this file is the loop and
//! the step, `store::insert_events` is the rest.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

use super::arrival_recorder::{self, Entry};
use super::{Ingest, SenderClock, metric};
use crate::clock::{Clock, Countdown};
use crate::event::KeyMaker;
use crate::limits::{BATCH_BYTES_MAX, SETTLED_MAX, WAITING_MAX, WRITE_WAIT};
use crate::store::{Commit, Inserted, NewEvent, Store, StoreError, insert_events};
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
        for _ in 0..settings.writers.max(1) {
            let (store, records, wake) = (store.clone(), records.clone(), wake.clone());
            let writer = Writer { store, records, wake, batch_max: settings.batch.max(1) };
            tasks.spawn(writer.run(queue.clone()));
        }
        tasks.spawn(arrival_recorder::run(store, settled));
        (
            Ingest { submissions, clock, keys, vendors: Arc::default(), sender_clock: SenderClock::default() },
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
    /// Waits for the first, then takes all that is there, up to the limits. Empty when nobody can submit any more.
    async fn gather(&mut self, batch_max: usize) -> Vec<Submission> {
        let first = match self.ahead.take() {
            Some(ahead) => ahead,
            None => match self.receiver.recv().await {
                Some(submission) => submission,
                None => return Vec::new(),
            },
        };
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
            self.settle(batch).await;
        }
    }

    /// Commits a batch and answers everybody in it. A batch that the database refuses is tried one by one, so that a
    /// poisonous event hurts only itself.
    async fn settle(&self, batch: Vec<Submission>) {
        match self.commit(&batch).await {
            Err(error) if !error.is_transient() && batch.len() > 1 => {
                tracing::warn!("a batch of {} was refused, trying one by one: {}", batch.len(), error.chain());
                for submission in batch {
                    let outcome = self.commit(std::slice::from_ref(&submission)).await;
                    self.answer(vec![submission], outcome);
                }
            }
            outcome => self.answer(batch, outcome),
        }
    }

    /// One transaction. Busy is tried once more: the lock or the deadlock's victim is free by then. So is one whose session
    /// was lost before COMMIT was sent, while the sender still waits: those that were lost with it are known by now.
    async fn commit(&self, batch: &[Submission]) -> Result<Settled, StoreError> {
        let events: Arc<[NewEvent]> = batch.iter().flat_map(|submission| submission.events.iter().cloned()).collect();
        let countdown = Countdown::from(WRITE_WAIT);
        match self.try_commit(&events, WRITE_WAIT).await {
            Err(StoreError::Busy(_)) => self.try_commit(&events, WRITE_WAIT).await,
            Err(error) if error.is_session_lost() && countdown.left() > WRITE_WAIT / 2 => {
                tracing::warn!("a batch of {} is tried on another connection: {}", batch.len(), error.chain());
                self.try_commit(&events, countdown.left()).await
            }
            outcome => outcome,
        }
    }

    async fn try_commit(&self, events: &Arc<[NewEvent]>, wait: Duration) -> Result<Settled, StoreError> {
        let write = async {
            let mut tx = self.store.begin_ingest().await?;
            let outcomes = insert_events(&mut tx, events).await?;
            Ok::<_, StoreError>((tx, outcomes))
        };
        // Somebody else's slow statements may stand before ours; a sender waits only so long.
        let (tx, outcomes) = match tokio::time::timeout(wait, write).await {
            Ok(written) => written?,
            Err(elapsed) => return Err(StoreError::Disconnected(elapsed.into())),
        };
        match tx.commit().await {
            Commit::Committed => Ok(Settled::Committed(outcomes)),
            Commit::Failed(error) => Err(error),
            Commit::Unknown(error) => Ok(Settled::Unknown(error)),
        }
    }

    fn answer(&self, batch: Vec<Submission>, outcome: Result<Settled, StoreError>) {
        match outcome {
            Ok(Settled::Committed(outcomes)) => self.answer_committed(batch, outcomes),
            Ok(Settled::Unknown(error)) => {
                tracing::error!("the result of a commit of {} requests is unknown: {}", batch.len(), error.chain());
                send(batch, || Stored::Unknown);
            }
            Err(error) => {
                tracing::error!("{} requests could not be stored: {}", batch.len(), error.chain());
                send(batch, || Stored::Failed);
            }
        }
    }

    /// Answers first; log lines and arrivals are recorded meanwhile, and the next commit begins.
    fn answer_committed(&self, batch: Vec<Submission>, outcomes: Vec<Inserted>) {
        let mut entries = Vec::with_capacity(outcomes.len());
        let mut outcomes = outcomes.into_iter();
        for Submission { events, answer } in batch {
            let own: Vec<Inserted> = outcomes.by_ref().take(events.len()).collect();
            let fresh = events.iter().zip(&own).filter(|(_, inserted)| inserted.is_runnable());
            self.wake.handlers(fresh.flat_map(|(new, _)| new.handlers.iter().map(|delivery| &delivery.handler)));
            events.iter().zip(&own).for_each(|(new, inserted)| metric::stored(&new.source, *inserted));
            entries.extend(events.into_iter().zip(&own).map(|(new, inserted)| Entry::new(new, *inserted)));
            // Nobody waits only when the client hung up; the event is stored all the same.
            let _ = answer.send(Stored::Committed(own));
        }
        // Never waited for: a line in the log and an arrival count may be lost, an acknowledgement may not be late.
        if let Err(error) = self.records.try_send(entries) {
            tracing::warn!("dropped the log lines and arrival counts of one batch: {error}");
        }
    }
}

enum Settled {
    Committed(Vec<Inserted>),
    Unknown(StoreError),
}

fn send(batch: Vec<Submission>, answer: impl Fn() -> Stored) {
    for Submission { events, answer: waiting } in batch {
        metric::unavailable(&events);
        let _ = waiting.send(answer());
    }
}
