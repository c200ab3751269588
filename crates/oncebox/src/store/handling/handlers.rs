//! What every node, and every function in the database, must know about a handler; and whether it is paused.

use std::time::Duration;

use crate::clock::UnixMillis;
use crate::delivery::retry::RetryPolicy;
use crate::event::EventKey;
use crate::store::handling::deliveries::{count, millis};
use crate::store::{Store, StoreError, Tx, sql};

/// What a stopped delivery does to those behind it in its order key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDead {
    /// They go on.
    Skip,
    /// They wait until a person replays, releases or discards it.
    Block,
}

/// A handler as the database must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerFacts {
    /// Its name.
    pub name: String,
    /// When to try again and when to give up.
    pub retry: RetryPolicy,
    /// How long a worker may keep a delivery.
    pub lease: Duration,
    /// What a dead or held delivery does to those behind it.
    pub on_dead: OnDead,
}

/// A registered handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerRecord {
    /// What it was registered with.
    pub facts: HandlerFacts,
    /// Nothing of it is claimed while this is true.
    pub paused: bool,
}

/// Who asked for something that is done at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The id of the line in the audit log.
    pub id: String,
    /// Who.
    pub who: String,
    /// When.
    pub at: UnixMillis,
}

/// Who has something to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Handlers with deliveries.
    pub handlers: Vec<String>,
    /// Those of them with deliveries that were lost with their worker before.
    pub lost: Vec<String>,
    /// Destinations with messages.
    pub destinations: Vec<String>,
    /// Handlers of which some deliveries have an order key.
    pub ordered: Vec<String>,
}

impl Store {
    /// Makes handlers known, or known anew after a change of the config. Without it nothing of them can be claimed.
    pub async fn register_handlers(&self, handlers: &[HandlerFacts]) -> Result<(), StoreError> {
        let mut sorted: Vec<&HandlerFacts> = handlers.iter().collect();
        sorted.sort_by_key(|facts| &facts.name);
        let mut tx = self.begin().await?;
        for facts in sorted {
            let values = vec![
                facts.name.as_str().into(),
                i64::from(facts.retry.attempts.max(1)).into(),
                millis(facts.retry.base).into(),
                millis(facts.retry.cap).into(),
                millis(facts.lease).into(),
                facts.on_dead.as_str().into(),
            ];
            tx.execute(&sql::REGISTER_HANDLER, values).await?;
        }
        tx.commit_or_fail().await
    }

    /// Stops or resumes claiming for a handler on every node, with a line in the audit log; false when it is not known. It
    /// acted on nothing where the handler was so already.
    pub async fn pause_handler_as(&self, asked: &Asked, handler: &str, paused: bool) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let acted = match tx.pause_handler(handler, paused).await? {
            Paused::Unknown => return Ok(false),
            Paused::Already => 0_i64,
            Paused::Changed => 1,
        };
        let kind = if paused { "pause" } else { "resume" };
        let about = serde_json::json!({ "handler": handler }).to_string();
        tx.log_action(asked, kind, &about, acted).await?;
        tx.commit_or_fail().await?;
        Ok(true)
    }

    /// Who has something due, paused handlers aside: what to ask before claiming, as often as one likes.
    pub async fn due(&self, now: UnixMillis) -> Result<Due, StoreError> {
        let mut due = Due::default();
        for row in self.query(&sql::DUE, vec![now.into()]).await? {
            let names = match row.text(0)?.as_str() {
                "handler" => &mut due.handlers,
                "lost" => &mut due.lost,
                "ordered" => &mut due.ordered,
                _ => &mut due.destinations,
            };
            names.push(row.text(1)?);
        }
        Ok(due)
    }

    /// Whether deliveries of a handler that have not ended have order keys: then they are claimed in order.
    pub async fn has_order_keys(&self, handler: &str) -> Result<bool, StoreError> {
        Ok(!self.query(&sql::HAS_ORDER_KEYS, vec![handler.into()]).await?.is_empty())
    }

    /// All handlers that were ever registered.
    pub async fn handlers(&self) -> Result<Vec<HandlerRecord>, StoreError> {
        let rows = self.query(&sql::HANDLERS, Vec::new()).await?;
        let duration = |ms: i64| Duration::from_millis(ms.max(0).unsigned_abs());
        let read = |row: &crate::store::Row| {
            let retry =
                RetryPolicy { attempts: count(row.int(2)?), base: duration(row.int(3)?), cap: duration(row.int(4)?) };
            let on_dead = if row.text(6)? == "block" { OnDead::Block } else { OnDead::Skip };
            let facts = HandlerFacts { name: row.text(0)?, retry, lease: duration(row.int(5)?), on_dead };
            Ok(HandlerRecord { facts, paused: row.int(1)? != 0 })
        };
        rows.iter().map(read).collect()
    }
}

/// What became of a wish to pause or resume a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paused {
    /// No server ever had it.
    Unknown,
    /// It was so before.
    Already,
    /// It is so now.
    Changed,
}

impl Tx {
    /// Writes a line into the audit log for what this transaction does at once.
    pub(in crate::store) async fn log_action(
        &mut self,
        asked: &Asked,
        kind: &str,
        about: &str,
        acted: i64,
    ) -> Result<(), StoreError> {
        let values = vec![
            asked.id.as_str().into(),
            kind.into(),
            about.into(),
            asked.who.as_str().into(),
            acted.into(),
            EventKey::MIN.into(),
            asked.at.into(),
        ];
        self.execute(&sql::LOG_ACTION, values).await?;
        Ok(())
    }

    async fn pause_handler(&mut self, handler: &str, paused: bool) -> Result<Paused, StoreError> {
        if self.execute(&sql::PAUSE_HANDLER, vec![handler.into(), i64::from(paused).into()]).await? == 1 {
            return Ok(Paused::Changed);
        }
        let known = self.query(&sql::HANDLERS, Vec::new()).await?;
        let is_known = known.iter().map(|row| row.text(0)).any(|name| name.is_ok_and(|name| name == handler));
        Ok(if is_known { Paused::Already } else { Paused::Unknown })
    }
}

impl OnDead {
    fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Block => "block",
        }
    }
}
