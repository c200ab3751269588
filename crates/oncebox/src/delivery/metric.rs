//! The numbers of attempts, whoever makes them. Names and labels are the contract's.

use std::time::Duration;

use metrics::{counter, histogram};

use super::Next;

/// How an attempt ended, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its effect is there.
    Done,
    /// It will be tried again.
    Failed,
    /// It was the last one, or a person must decide.
    Dead,
    /// Something newer was applied, so it did not run.
    Superseded,
}

impl From<Next> for Outcome {
    fn from(next: Next) -> Self {
        match next {
            Next::Retry { .. } => Self::Failed,
            Next::Dead | Next::Held => Self::Dead,
        }
    }
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Superseded => "superseded",
        }
    }
}

/// Counts an attempt, which is counted from 1.
pub(crate) fn counted(handler: &str, attempt: u32, outcome: Outcome) {
    let (handler, outcome) = (handler.to_owned(), outcome.as_str());
    counter!("oncebox_attempts_total", "handler" => handler, "try" => nth(attempt), "outcome" => outcome).increment(1);
}

/// The same for a message.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn counted_message(destination: &str, attempt: u32, outcome: &'static str) {
    let name = destination.to_owned();
    counter!("oncebox_outbox_attempts_total", "destination" => name, "try" => nth(attempt), "outcome" => outcome)
        .increment(1);
}

/// Notes how long a handler worked on one delivery, or on each of several at once.
pub(crate) fn took(handler: &str, time: Duration, deliveries: usize) {
    let each = time.as_secs_f64() / deliveries.max(1) as f64;
    histogram!("oncebox_handler_seconds", "handler" => handler.to_owned()).record_many(each, deliveries);
}

fn nth(attempt: u32) -> &'static str {
    if attempt <= 1 { "first" } else { "retry" }
}
