//! Arms a source: through the server, which knows its sources, or in the database, after asking the config.

use std::time::Duration;

use oncebox::Clock;
use oncebox::gateway::sealed::{Sealer, is_strong};
use oncebox::gateway::store::{Asked, Store, StoreError};

use super::{Operator, reach, refuse};
use crate::arming::{ArmingView, arrival};
use crate::cli::operator::OperatorArgs;
use crate::config::Reach;
use crate::operator::name_of_caller;
use crate::query::QueryError;
use crate::query::actions::{new_id, who};
use crate::usage::wrong_usage;

impl Operator {
    /// Lets the next handshake of a source bring its secret; with patience, waits for it.
    pub(crate) async fn arm(
        &self,
        source: &str,
        patience: Option<Duration>,
        args: &OperatorArgs,
    ) -> anyhow::Result<ArmingView> {
        let store = match self {
            Self::Server(client) => return client.arm(source, patience).await,
            Self::Database(store, _) => store,
        };
        let reach = reach(args)?;
        match &reach {
            Some(reach) => check(reach, source)?,
            None if patience.is_some() => {
                return Err(wrong_usage("--wait at a database needs the server's config too: name it with --config"));
            }
            None => eprintln!(
                "note: without a config nobody can check that there is a source {source:?} whose secret arrives, and a \
                 store.secret_key to keep it with; name it with --config"
            ),
        }
        let lost = |error: StoreError| refuse(QueryError::Store(error));
        let clock = Clock::system();
        let asked = Asked { id: new_id(&clock), who: who(Some(name_of_caller())), at: clock.now() };
        store.arm_secret_as(&asked, source).await.map_err(lost)?;
        match (patience, &reach) {
            (Some(patience), Some(reach)) => waited(store, reach, source, patience).await.map_err(lost),
            _ => Ok(ArmingView::armed(source)),
        }
    }

    /// Takes an arming back.
    pub(crate) async fn disarm(&self, source: &str, args: &OperatorArgs) -> anyhow::Result<ArmingView> {
        let store = match self {
            Self::Server(client) => return client.disarm(source).await,
            Self::Database(store, _) => store,
        };
        if reach(args)?.is_some_and(|reach| !reach.senders.contains_key(source)) {
            return Err(wrong_usage(format!("the config has no source {source:?}")));
        }
        let clock = Clock::system();
        let asked = Asked { id: new_id(&clock), who: who(Some(name_of_caller())), at: clock.now() };
        store.disarm_secret_as(&asked, source).await.map_err(|error| refuse(QueryError::Store(error)))?;
        Ok(ArmingView::disarmed(source))
    }
}

/// What the server would refuse, as far as its config tells.
fn check(reach: &Reach, source: &str) -> anyhow::Result<()> {
    let sender = reach.senders.get(source);
    let sender = sender.ok_or_else(|| wrong_usage(format!("the config has no source {source:?}")))?;
    if !sender.brings_secret() {
        return Err(wrong_usage("this source's secret does not arrive by a handshake"));
    }
    let key = reach.store.as_ref().ok().and_then(|store| store.secret_key.as_ref());
    if !key.is_some_and(is_strong) {
        return Err(wrong_usage(
            "the config has no store.secret_key to keep the secret with, or a weak one; `openssl rand -base64 32` makes one",
        ));
    }
    Ok(())
}

async fn waited(store: &Store, reach: &Reach, source: &str, patience: Duration) -> Result<ArmingView, StoreError> {
    let Some(sealed) = arrival(store, source, patience, || false).await? else { return Ok(ArmingView::armed(source)) };
    let shows = reach.senders.get(source).is_some_and(|sender| sender.shows_secret());
    let key = reach.store.as_ref().ok().and_then(|store| store.secret_key.as_ref());
    let sealer = key.filter(|_| shows).and_then(Sealer::new);
    Ok(ArmingView::arrived(source, sealer.and_then(|sealer| sealer.open(source, &sealed)).as_ref()))
}
