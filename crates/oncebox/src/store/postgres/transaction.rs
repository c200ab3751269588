//! A transaction on Postgres, which a dropped future cannot leave open.
//!
//! It takes its connection out of the pool for good unless it ended cleanly, by an answered COMMIT or ROLLBACK: a connection
//! in an unknown state is closed, never handed to the next caller.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::join;

use crate::database::refused_commit;
use crate::store::insert::one_trip::Settled;
use crate::store::postgres::batch::{MostlyKnown, Staged};
use crate::store::postgres::connect::Link;
use crate::store::postgres::{Object, STEP_WAIT, as_params, classify, read_row, within};
use crate::store::sql::postgres as sql;
use crate::store::{Commit, Durability, Row, StoreError, Value};

/// How long several statements may take: a migration of a large table takes its time. Whoever waits for another node's
/// steps waits as long.
const BATCH_WAIT: Duration = Duration::from_secs(6 * 60 * 60);
/// How long the referee's question may take. Nobody waits that long for a lock there, so it is the link that is silent,
/// and a sender still waits when the batch is tried again on another.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// How long the answer to a ROLLBACK may take: nothing else is under way on its connection.
const END_WAIT: Duration = Duration::from_secs(2);

/// A transaction on a connection of its own.
///
/// Every round trip costs two wake-ups on a busy machine, so what needs no answer travels with what does: BEGIN with
/// the referee's question, the rows of a batch with COMMIT. The driver sends in the order of the first polls.
#[derive(Debug)]
pub(in crate::store) struct Tx {
    client: Option<Object>,
    session: &'static str,
    begun: bool,
    failed: bool,
    /// A question was not answered to its end, so nobody knows what the session is doing.
    lost: bool,
    /// A handler's statements may have left something in the session.
    dirty: bool,
    staged: Option<Staged>,
    link: Arc<Link>,
    pub(in crate::store) loops: Arc<AtomicBool>,
}

impl Tx {
    pub(in crate::store) fn new(
        client: Object,
        session: &'static str,
        link: Arc<Link>,
        loops: Arc<AtomicBool>,
    ) -> Self {
        let client = Some(client);
        Self { client, session, begun: false, failed: false, lost: false, dirty: false, staged: None, link, loops }
    }

    /// What was demanded of the database.
    pub(in crate::store) fn durability(&self) -> Durability {
        self.link.durability()
    }

    /// What batches of this database are like of late.
    pub(in crate::store) fn mostly_known(&self) -> MostlyKnown {
        self.link.mostly_known()
    }

    pub(in crate::store) fn client(&self) -> Result<&Object, StoreError> {
        self.client.as_ref().ok_or_else(|| StoreError::Disconnected("the transaction is over".into()))
    }

    /// Runs the referee's question, which BEGIN may travel with: the statement itself looks whether BEGIN came through,
    /// because without it (cancelled, timed out) the statement would commit by itself.
    pub(in crate::store) async fn guarded_step<T>(
        &mut self,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.send_staged().await?;
        if self.begun {
            return self.ask(work).await;
        }
        let client = self.client()?;
        let outcome = within(FIRST_WAIT, async {
            let (begun, outcome) = join(client.batch_execute(sql::BEGIN), work(client)).await;
            begun.and(outcome).map_err(classify)
        })
        .await;
        self.begun = outcome.is_ok();
        self.give_up_on(&outcome);
        self.note(&outcome);
        outcome
    }

    /// Runs a step within the deadline; after a failure the transaction can only roll back.
    pub(in crate::store) async fn step<T>(
        &mut self,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.send_staged().await?;
        self.ask(work).await
    }

    /// As [`Tx::step`], for work that has a deadline of its own.
    pub(in crate::store) async fn step_within<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.send_staged().await?;
        self.ask_within(limit, work).await
    }

    async fn ask<T>(
        &mut self,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let outcome = self.ask_within(STEP_WAIT, work).await;
        self.give_up_on(&outcome);
        outcome
    }

    async fn ask_within<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let client = self.client()?;
        let begun = self.begun;
        let outcome = within(limit, async {
            if !begun {
                client.batch_execute(sql::BEGIN).await.map_err(classify)?;
            }
            work(client).await.map_err(classify)
        })
        .await;
        self.begun = true;
        self.note(&outcome);
        outcome
    }

    /// Tells the others where a question of ours was met by silence.
    fn give_up_on<T>(&self, outcome: &Result<T, StoreError>) {
        if let (Err(error), Some(client)) = (outcome, &self.client) {
            self.link.given_up(client, error);
        }
    }

    /// Closes the session after this transaction, for what came out while others' statements ran.
    pub(in crate::store) fn abandon(&mut self, error: &StoreError) {
        (self.failed, self.lost) = (true, true);
        if let Some(client) = &self.client {
            self.link.given_up(client, error);
        }
    }

    fn note<T>(&mut self, outcome: &Result<T, StoreError>) {
        self.failed |= outcome.is_err();
        self.lost |= matches!(outcome, Err(StoreError::Disconnected(_)));
    }

    /// Statements that are not ours, and that may leave traces in the session, follow.
    pub(in crate::store) fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    pub(in crate::store) async fn stage(&mut self, staged: Staged) -> Result<(), StoreError> {
        self.send_staged().await?;
        self.staged = Some(staged);
        Ok(())
    }

    /// Rows that cannot wait for the commit, because something comes after them.
    async fn send_staged(&mut self) -> Result<(), StoreError> {
        match self.staged.take() {
            Some(staged) => self.ask(async |client| staged.insert(client).await).await,
            None => Ok(()),
        }
    }

    pub(in crate::store) async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        self.step(async |client| {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, &as_params(&values)).await
        })
        .await
    }

    pub(in crate::store) async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let rows = self
            .step(async |client| {
                let statement = client.prepare_cached(sql).await?;
                client.query(&statement, &as_params(&values)).await
            })
            .await?;
        rows.iter().map(read_row).collect()
    }

    pub(in crate::store) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.step_within(BATCH_WAIT, async |client| client.batch_execute(sql).await).await
    }

    pub(in crate::store) async fn commit(mut self) -> Commit {
        if self.failed {
            // COMMIT would be answered by a quiet ROLLBACK.
            self.rollback().await;
            return Commit::Failed(StoreError::Refused("a statement of the transaction failed".into()));
        }
        if !self.begun
            && let Err(error) = self.send_staged().await
        {
            // Without BEGIN before them the rows would commit one by one.
            return Commit::Failed(error);
        }
        let staged = self.staged.take();
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return Commit::Failed(error),
        };
        let begun = self.begun;
        client.listen();
        let committed = tokio::time::timeout(STEP_WAIT, async {
            match staged {
                Some(staged) => staged.insert_and_commit(client).await,
                None => client.batch_execute("COMMIT").await,
            }
        });
        let answered = match committed.await {
            Ok(answered) => answered,
            Err(elapsed) => return Commit::Unknown(StoreError::Disconnected(elapsed.into())),
        };
        // Where nothing was sent, the server only wonders what there is to commit.
        if !begun {
            client.listen();
        }
        match self.after_commit(answered).await {
            Ok(Settled::Committed(())) => Commit::Committed,
            Ok(Settled::Unknown(error)) => Commit::Unknown(error),
            Err(error) => Commit::Failed(error),
        }
    }

    /// Runs statements outside any transaction; each commits what it writes. BEGIN was never sent.
    pub(in crate::store) async fn commit_at_once<T>(
        self,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<Settled<T>, StoreError> {
        let client = self.client()?;
        client.listen();
        match tokio::time::timeout(FIRST_WAIT, work(client)).await {
            Ok(answered) => self.after_commit(answered).await,
            Err(elapsed) => {
                let silence = StoreError::Disconnected(elapsed.into());
                self.link.given_up(client, &silence);
                Ok(Settled::Unknown(silence))
            }
        }
    }

    /// What the answer to a commit means. The session is kept where nothing can be open on it.
    async fn after_commit<T>(mut self, answered: Result<T, tokio_postgres::Error>) -> Result<Settled<T>, StoreError> {
        let client = self.client()?;
        match answered {
            Ok(value) => match client.warning() {
                None => {
                    self.give_back().await;
                    Ok(Settled::Committed(value))
                }
                // It is on this server's disk, and perhaps nowhere else: somebody ended the wait for the standby.
                Some(warning) => {
                    let doubt = format!("the server warned while it committed: {warning}");
                    Ok(Settled::Unknown(StoreError::Disconnected(doubt.into())))
                }
            },
            Err(error) if refused_commit(error.code().map(tokio_postgres::error::SqlState::code)) => {
                let refused = Err(classify(error));
                self.give_up_on(&refused);
                self.note(&refused);
                self.rollback().await;
                refused
            }
            Err(error) => {
                let error = classify(error);
                self.link.given_up(client, &error);
                Ok(Settled::Unknown(error))
            }
        }
    }
}

impl Tx {
    /// Ends the transaction without its writes. The answer proves that nothing of it is left, so the connection is kept.
    pub(in crate::store) async fn rollback(self) {
        if self.lost {
            return;
        }
        let Ok(client) = self.client() else { return };
        // Even where BEGIN seems not to have come through: then this is a warning in the server's log, and no harm.
        let ended = within(END_WAIT, async { client.batch_execute("ROLLBACK").await.map_err(classify) });
        if ended.await.is_ok() {
            self.give_back().await;
        }
    }

    /// Puts the connection back into the pool after a clean end, as clean as it came out.
    async fn give_back(mut self) {
        if self.dirty {
            let Ok(client) = self.client() else { return };
            let cleaned = within(END_WAIT, async {
                let (cleaned, set) =
                    join(client.batch_execute(sql::CLEAN_SESSION), client.batch_execute(self.session)).await;
                cleaned.and(set).map_err(classify)
            });
            if cleaned.await.is_err() {
                return;
            }
        }
        drop(self.client.take());
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // Out of the pool and closed: the server rolls back whatever was open.
            drop(Object::take(client));
        }
    }
}
