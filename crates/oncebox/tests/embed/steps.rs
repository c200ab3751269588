//! A handler of three steps that is killed after each of them: every step's effect once, under the same key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::Clock;
use oncebox::HandlerError;
use oncebox::inbox::{Context, Handler, Inbox, StepKey};
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::handlers::quick;
use crate::world::{App, open, stored, wait_until};

const STEPS: [&str; 3] = ["charge", "ship", "mail"];

/// Somebody outside who tells repetitions by their key, and remembers every call.
#[derive(Default)]
struct Outside {
    effects: BTreeMap<String, String>,
    calls: Vec<(String, String)>,
}

/// Dies after a step: before its result is kept, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Before(usize),
    After(usize),
}

struct ThreeSteps {
    outside: Arc<Mutex<Outside>>,
    deaths: Arc<Mutex<Vec<Death>>>,
}

impl ThreeSteps {
    /// True once for every planned death: the attempt then hangs, as the rest of a killed process does.
    fn dies(&self, death: Death) -> bool {
        let mut deaths = self.deaths.lock().unwrap();
        if deaths.first() == Some(&death) {
            deaths.remove(0);
            return true;
        }
        false
    }

    fn call(&self, step: &str, key: StepKey) -> String {
        let mut outside = self.outside.lock().unwrap();
        outside.calls.push((step.to_owned(), format!("{key} {}", key.id("receipt"))));
        let count = outside.effects.len();
        outside.effects.entry(key.to_string()).or_insert_with(|| format!("{step}-{count}")).clone()
    }
}

impl<P: App> Handler<P> for ThreeSteps {
    async fn handle(&self, context: &mut Context<P>) -> Result<(), HandlerError> {
        let mut results = Vec::new();
        for (nth, step) in STEPS.into_iter().enumerate() {
            let result: String = context
                .step(step, |key| async move {
                    let result = self.call(step, key);
                    if self.dies(Death::Before(nth)) {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, HandlerError>(result)
                })
                .await?;
            results.push(result);
            if self.dies(Death::After(nth)) {
                std::future::pending::<()>().await;
            }
        }
        let (event, tx) = context.event_and_tx().await?;
        P::effect(tx, &format!("{} {}", event.id, results.join(" "))).await
    }
}

async fn check<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    stored(&db, &["evt_1".to_owned()]).await;
    let outside = Arc::new(Mutex::new(Outside::default()));
    let plan = (0..STEPS.len()).flat_map(|nth| [Death::Before(nth), Death::After(nth)]).collect();
    let deaths: Arc<Mutex<Vec<Death>>> = Arc::new(Mutex::new(plan));
    let mut options = quick();
    options.retry.attempts = 20;
    options.lease = Duration::from_millis(600);
    loop {
        let left = deaths.lock().unwrap().len();
        let handler = ThreeSteps { outside: outside.clone(), deaths: deaths.clone() };
        let running =
            Inbox::new(pool.clone(), Clock::system()).with("billing", options, handler).start().await.unwrap();
        wait_until("it dies or is done", || deaths.lock().unwrap().len() < left || db.count("effects") > 0).await;
        if db.count("effects") > 0 {
            running.stop(Duration::from_secs(5)).await;
            break;
        }
        // No word to anybody: the lease has to end.
        drop(running);
    }
    let outside = outside.lock().unwrap();
    assert_eq!(outside.effects.len(), STEPS.len(), "every step's effect once");
    for step in STEPS {
        let keys: Vec<&String> =
            outside.calls.iter().filter(|(called, _)| called == step).map(|(_, key)| key).collect();
        assert_eq!(keys.len(), 2, "{step} was called again only where its result was not kept");
        assert_eq!(keys[0], keys[1], "{step}");
    }
    assert_eq!(db.query("select id from effects"), [["evt_1 charge-0 ship-1 mail-2"]]);
}

#[test]
fn killed_after_each_step_on_postgres() {
    testkit::database::run(Backend::Postgres, check::<PgPool>);
}

#[test]
fn killed_after_each_step_on_sqlite() {
    testkit::database::run(Backend::Sqlite, check::<SqlitePool>);
}

#[test]
fn killed_after_each_step_on_tokio_postgres() {
    testkit::database::run(Backend::Postgres, check::<deadpool_postgres::Pool>);
}

#[test]
fn killed_after_each_step_on_rusqlite() {
    testkit::database::run(Backend::Sqlite, check::<oncebox::database::rusqlite::Database>);
}

#[test]
fn killed_after_each_step_on_diesel() {
    testkit::database::run(Backend::Postgres, check::<crate::world::Diesel>);
}
