//! Operators who act at the same instant.

use std::time::Duration;

use oncebox::gateway::delivery::Next;
use oncebox::gateway::store::{Action, ActionFilter, ActionKind};
use testkit::{Backend, TestDatabase};

use crate::store_contract::deliveries::{claim, fail, processing};
use crate::world::{HANDLERS, NOW, SOURCE, held};

fn action(id: &str, kind: ActionKind, handler: Option<&str>) -> Action {
    let filter = ActionFilter {
        source: Some(SOURCE.to_owned()),
        handler: handler.map(str::to_owned),
        ..ActionFilter::default()
    };
    Action { id: id.to_owned(), kind, filter, who: "ann".to_owned() }
}

testkit::contract! {
    async fn an_event_whose_deliveries_are_released_at_once_is_settled(db: TestDatabase) {
        let world = processing(db).await;
        for round in 0..8 {
            world.insert((0..50).map(|n| held(world.event(&format!("{round}_{n}"), &format!("{round} {n}"))))).await;
            let release = |handler: &'static str| {
                let (store, action) = (world.store.clone(), action(&format!("{round} {handler}"), ActionKind::Release, Some(handler)));
                tokio::spawn(async move { store.act(&action, None, NOW).await.unwrap() })
            };
            let both = HANDLERS.map(release);
            for one in both {
                assert_eq!(one.await.unwrap(), 50);
            }
            assert_eq!(world.query("select count(*) from {deliveries} where state = 'held'"), [["0"]]);
            assert_eq!(world.query("select count(*) from {events} where state = 'held'"), [["0"]], "round {round}");
        }
    }
}

/// Somebody holds a row for a moment; on SQLite nobody can while an action runs.
async fn a_row_that_is_locked_is_waited_for(db: TestDatabase) {
    let world = processing(db).await;
    world.insert((0..5).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
    for one in claim(&world, 5).await {
        fail(&world, one.fence, Next::Dead).await;
    }
    let (client, connection) = tokio_postgres::connect(world.db.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute(
            "begin; select 1 from oncebox.deliveries where state = 'dead' order by delivery limit 1 for update",
        )
        .await
        .unwrap();
    let store = world.store.clone();
    let acting =
        tokio::spawn(async move { store.act(&action("r", ActionKind::Replay, None), None, NOW).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.batch_execute("commit").await.unwrap();
    assert_eq!(acting.await.unwrap(), 5);
    assert_eq!(world.query("select count(*) from {deliveries} where state = 'dead'"), [["0"]]);
}

#[test]
fn an_action_leaves_no_locked_row_out() {
    testkit::database::run(Backend::Postgres, a_row_that_is_locked_is_waited_for);
}
