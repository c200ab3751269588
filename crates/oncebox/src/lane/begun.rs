//! Records what is about to begin, before it begins: at once where that takes no transaction, and otherwise many in one
//! commit, where those that ask during a write share the next.
//!
//! A process that dies has used an attempt of these and of nothing else. The record is a list for each role, which is
//! overwritten: what has ended since is named in it until the next write, and its token says that it is over.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::event::NodeKey;
use crate::limits::BEGUN_MAX;
use crate::store::{BegunClaim, Role, Store, StoreError};

/// How often a write is tried before the work is left to others.
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

type Lists = Arc<Mutex<HashMap<Role, HashSet<BegunClaim>>>>;

/// Hands what is about to begin to the one who writes it down. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Beginnings {
    store: Store,
    node: NodeKey,
    asks: mpsc::Sender<Ask>,
    lists: Lists,
}

#[derive(Debug)]
struct Ask {
    role: Role,
    answer: oneshot::Sender<bool>,
}

/// Work that is under way and on record; dropped, it is over.
#[derive(Debug)]
pub(crate) struct UnderWay {
    role: Role,
    claims: Vec<BegunClaim>,
    lists: Lists,
}

impl Beginnings {
    /// The asking end and the future that writes; it ends with the last [`Beginnings`].
    pub(crate) fn new(store: Store, node: NodeKey) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (asks, receiver) = mpsc::channel(BEGUN_MAX);
        let lists = Lists::default();
        let begun = Self { store: store.clone(), node, asks, lists: lists.clone() };
        (begun, run(store, node, lists, receiver))
    }

    /// Writes down that these begin; none when that cannot be written, and then they must not.
    pub(crate) async fn begin(&self, role: Role, claims: Vec<BegunClaim>) -> Option<UnderWay> {
        let written = {
            // The lock is held over the write: two that begin at once must not overwrite each other.
            let mut lists = lock(&self.lists);
            let list = lists.entry(role).or_default();
            list.extend(claims.iter().copied());
            let under_way: Vec<_> = list.iter().copied().collect();
            self.store.write_begun_now(self.node, role, &under_way)
        };
        let under_way = UnderWay { role, claims, lists: self.lists.clone() };
        if let Some(written) = written {
            let warn = |error: &StoreError| {
                tracing::warn!("work was not started, because its start could not be recorded: {}", error.chain())
            };
            return written.inspect_err(warn).is_ok().then_some(under_way);
        }
        let (answer, wait) = oneshot::channel();
        self.asks.send(Ask { role, answer }).await.ok()?;
        wait.await.unwrap_or(false).then_some(under_way)
    }
}

/// Says, before anything is claimed, that this process writes down what it begins.
pub(crate) async fn announce(
    begun: &Beginnings,
    roles: &[Role],
    store: &Store,
    node: NodeKey,
) -> Result<(), StoreError> {
    for role in roles {
        store.write_begun(node, *role, &listed(&begun.lists, *role)).await?;
    }
    Ok(())
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(list) = lock(&self.lists).get_mut(&self.role) {
            self.claims.iter().for_each(|claim| {
                list.remove(claim);
            });
        }
    }
}

async fn run(store: Store, node: NodeKey, lists: Lists, mut asks: mpsc::Receiver<Ask>) {
    let mut batch = Vec::with_capacity(BEGUN_MAX);
    while asks.recv_many(&mut batch, BEGUN_MAX).await > 0 {
        // Whoever is about to ask shares this write: each costs as much for one as for many.
        tokio::task::yield_now().await;
        while batch.len() < BEGUN_MAX
            && let Ok(ask) = asks.try_recv()
        {
            batch.push(ask);
        }
        let mut written = HashMap::new();
        for role in batch.iter().map(|ask| ask.role).collect::<HashSet<_>>() {
            written.insert(role, write(&store, node, role, &lists).await);
        }
        for ask in batch.drain(..) {
            // Nobody waits only when the work was stopped.
            let _ = ask.answer.send(written.get(&ask.role).copied().unwrap_or(false));
        }
    }
}

async fn write(store: &Store, node: NodeKey, role: Role, lists: &Lists) -> bool {
    for nth in 1..=TRIES_MAX {
        match store.write_begun(node, role, &listed(lists, role)).await {
            Ok(()) => return true,
            Err(error) => tracing::warn!("the start of work could not be recorded (try {nth}): {}", error.chain()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    false
}

fn listed(lists: &Lists, role: Role) -> Vec<BegunClaim> {
    lock(lists).get(&role).map(|list| list.iter().copied().collect()).unwrap_or_default()
}

/// Never held over an await.
fn lock(lists: &Lists) -> MutexGuard<'_, HashMap<Role, HashSet<BegunClaim>>> {
    lists.lock().unwrap_or_else(PoisonError::into_inner)
}
