//! Commands that look and change nothing.

pub(crate) mod audit_log;
pub(crate) mod dead_letters;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod held;
pub(crate) mod outbox;
pub(crate) mod status;
pub(crate) mod tail;

use std::process::ExitCode;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::operator::OperatorArgs;
use crate::operator::Operator;
use crate::query::view::Items;
use crate::terminal;

/// Prints a page of one of the API's lists: as JSON, or as a table and how to go on.
async fn list<T: Serialize + DeserializeOwned>(
    args: &OperatorArgs,
    (name, options): (&str, &impl Serialize),
    table: fn(&[T]) -> String,
    nothing: &str,
) -> anyhow::Result<ExitCode> {
    let page: Items<T> = Operator::open(args).await?.list(name, options).await?;
    terminal::show(args.json, &page, || page.told(table, nothing))
}
