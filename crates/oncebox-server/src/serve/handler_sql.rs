//! What the database says against the handlers' SQL before anything runs: `check` refuses it, `serve` warns, because the
//! table may be created later.

use std::time::Duration;

use oncebox::gateway::store::{EventFilter, Store, StoreError};

use crate::config::handler::{HandlerConfig, HandlerKind};
use crate::config::problem::Problem;

/// A start must not wait longer than this for a look that only warns.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn is_any(handlers: &[HandlerConfig]) -> bool {
    handlers.iter().any(|handler| matches!(handler.kind, HandlerKind::Sql(..)))
}

/// Prepares every statement of every handler, without running any.
pub(crate) async fn problems(store: &Store, handlers: &[HandlerConfig]) -> Result<Vec<Problem>, StoreError> {
    // What a statement names of ours comes with the schema, which `check` does not create.
    let has_schema = !matches!(store.events(&EventFilter::default(), 1).await, Err(StoreError::Refused(_)));
    let mut problems = Vec::new();
    for handler in handlers {
        let HandlerKind::Sql(sql, place, path) = &handler.kind else { continue };
        let said = store.prepare_handler(sql).await?;
        problems.extend(said.into_iter().filter(|what| has_schema || !what.contains("oncebox")).map(|what| Problem {
            place: Some(*place),
            path: path.clone(),
            what,
            cure: "correct the statement, or create what it names".to_owned(),
        }));
    }
    Ok(problems)
}

/// Logs what the database says against the handlers' SQL.
pub(crate) async fn warn(store: &Store, handlers: &[HandlerConfig]) {
    match tokio::time::timeout(PATIENCE, problems(store, handlers)).await {
        Ok(Ok(problems)) => {
            for Problem { path, what, .. } in problems {
                tracing::warn!("{path}: {what}; every delivery fails until the table or the statement is fixed");
            }
        }
        Ok(Err(error)) => tracing::warn!("the SQL of handlers could not be checked: {}", error.chain()),
        Err(_) => tracing::warn!("the SQL of handlers could not be checked in time"),
    }
}
