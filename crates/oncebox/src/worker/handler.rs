//! What reacts to events, and how: statements inside the transaction that marks the delivery done, or a call to
//! somewhere else, after which it is marked.
//!
//! A handler inside has its effect exactly once. One outside is called at least once, always under the same key.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::delivery::Failed;
use crate::delivery::retry::RetryPolicy;
use crate::lane::circuit::Reached;
use crate::lane::rate::Rate;
use crate::store::{Claimed, HandlerFacts, HandlerSql, OnDead};
use oncebox_verify::BodyPointer;

/// Work that is under way.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A handler as its operator wants it.
#[derive(Clone, Debug)]
pub struct HandlerSpec {
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub work: Work,
    /// How long a worker may keep a delivery.
    pub lease: Duration,
    /// When to try again and when to give up.
    pub retry: RetryPolicy,
    /// Calls, or transactions, at once.
    pub concurrency: usize,
    /// Calls in a time, at most.
    pub rate: Option<Rate>,
    /// What order asks for.
    pub order: OrderRules,
}

/// What a handler does.
#[derive(Clone)]
pub enum Work {
    /// Statements, in the transaction that marks the delivery done.
    Sql(Arc<HandlerSql>),
    /// A call to somewhere else, with no transaction open.
    Call(Arc<dyn Target>),
    /// Nothing of ours: others claim and finish.
    Pull,
}

/// Somewhere else that is told about an event.
pub trait Target: Send + Sync + 'static {
    /// Tells it. Must come to an end before [`Target::deadline`].
    fn call<'a>(&'a self, event: &'a Claimed) -> Working<'a, Result<(), CallError>>;

    /// How long a call may take.
    fn deadline(&self) -> Duration;
}

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// For people.
    pub error: String,
    /// The answer's status, where there was an answer.
    pub status: Option<u16>,
    /// Whether to try again.
    pub failed: Failed,
    /// What it says about the target.
    pub reached: Reached,
}

/// What order asks for, beside "one at a time per key", which is decided when an event is stored.
#[derive(Clone, Debug, Default)]
pub struct OrderRules {
    /// Strictly older versions become superseded.
    pub latest: Option<Latest>,
    /// What must be done before.
    pub wait_for: Option<WaitFor>,
    /// Two ids, one business change.
    pub once_per: Option<OncePer>,
    /// What a dead delivery does to those behind it in its key.
    pub block_on_dead: bool,
}

/// Only the newest version of an object counts.
#[derive(Clone, Debug)]
pub struct Latest {
    /// Where the object's key stands.
    pub key: BodyPointer,
    /// Where the version stands.
    pub version: BodyPointer,
}

/// A prerequisite of the same handler.
#[derive(Clone, Debug)]
pub struct WaitFor {
    /// The prerequisite's type.
    pub event_type: String,
    /// Where the shared key stands in the event that waits.
    pub key: BodyPointer,
    /// Where the shared key stands in the prerequisite.
    pub on: BodyPointer,
    /// How long to wait.
    pub within: Duration,
    /// What happens at the deadline.
    pub otherwise: Otherwise,
}

/// What happens when the prerequisite never came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Run without it.
    Run,
    /// Give up.
    Dead,
}

/// Events with the same fields within the window are one business change.
#[derive(Clone, Debug)]
pub struct OncePer {
    /// Where the fields stand.
    pub fields: Vec<BodyPointer>,
    /// The window.
    pub window: Duration,
}

impl HandlerSpec {
    /// What the database must know about it.
    pub fn facts(&self) -> HandlerFacts {
        HandlerFacts {
            name: self.name.to_string(),
            retry: self.retry,
            lease: self.lease,
            on_dead: if self.order.block_on_dead { OnDead::Block } else { OnDead::Skip },
        }
    }

    /// Whether it needs headers or body of an event: statements may bind neither, and order reads the body.
    pub(crate) fn reads_payload(&self) -> bool {
        match &self.work {
            Work::Sql(sql) => sql.binds_body() || !self.order.are_none(),
            Work::Call(_) | Work::Pull => true,
        }
    }
}

impl Work {
    /// Whether it may write outbox messages in its transaction.
    pub(crate) fn may_send(&self) -> bool {
        match self {
            Self::Sql(sql) => sql.may_send(),
            Self::Call(_) | Self::Pull => false,
        }
    }
}

impl OrderRules {
    /// True when nothing has to be decided before an event runs, nor written down after it.
    pub(crate) fn are_none(&self) -> bool {
        self.latest.is_none() && self.wait_for.is_none() && self.once_per.is_none()
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sql(_) => "Sql",
            Self::Call(_) => "Call",
            Self::Pull => "Pull",
        })
    }
}
