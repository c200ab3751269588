//! Two deliveries of one id at the same time: one effect, two acknowledgements, whatever the driver.

use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::world::{App, open, serve, setting, signed};

/// Repetitions: `ONCEBOX_TEST_RACES=1000` for the full run.
fn races() -> usize {
    setting("ONCEBOX_TEST_RACES", 100)
}

async fn check<P: App>(db: TestDatabase) {
    let address = serve(open::<P>(&db).await).await.to_string();
    for race in 0..races() {
        let id = format!("evt_{race}");
        let both = [signed(&id), signed(&id)].map(|copy| {
            let address = address.clone();
            tokio::task::spawn_blocking(move || copy.post(&address, "stripe"))
        });
        let mut words = Vec::new();
        for answer in both {
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            words.push(answer.json()["status"].as_str().unwrap().to_owned());
        }
        words.sort();
        assert_eq!(words, ["accepted", "duplicate"], "race {race}");
    }
    let effects = db.query("select id, count(*) from effects group by id");
    assert_eq!(effects.len(), races());
    assert!(effects.iter().all(|row| row[1] == "1"), "{effects:?}");
}

fn run<P: App>(backend: Backend) {
    testkit::database::run(backend, check::<P>);
}

#[test]
fn sqlx_postgres() {
    run::<PgPool>(Backend::Postgres);
}

#[test]
fn sqlx_sqlite() {
    run::<SqlitePool>(Backend::Sqlite);
}

#[test]
fn tokio_postgres() {
    run::<deadpool_postgres::Pool>(Backend::Postgres);
}

#[test]
fn rusqlite() {
    run::<oncebox::database::rusqlite::Database>(Backend::Sqlite);
}

#[test]
fn diesel() {
    run::<crate::world::Diesel>(Backend::Postgres);
}
