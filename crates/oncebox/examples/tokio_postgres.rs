//! Exactly once in a plain tokio-postgres transaction of your own: claim the id, do the work, commit, then answer.
//!
//! `cargo run -p oncebox --example tokio_postgres --features deadpool-postgres`

use std::error::Error;

use deadpool_postgres::{Manager, Pool};
use oncebox::database::migrate;
use oncebox::{Once, once};
use testkit::{Backend, TestDatabase};
use tokio_postgres::NoTls;

/// One delivery. Whoever comes second waits for the first one's commit, and is a duplicate then.
async fn deliver(pool: &Pool, id: &str) -> Result<Once, Box<dyn Error + Send + Sync>> {
    let mut client = pool.get().await?;
    let client: &mut tokio_postgres::Client = &mut client;
    let mut tx = client.transaction().await?;
    let claimed = once(&mut tx, "stripe", id).await?;
    if claimed == Once::Fresh {
        tx.execute("insert into orders (event) values ($1)", &[&id]).await?;
    }
    tx.commit().await?;
    Ok(claimed)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let db = TestDatabase::fresh(Backend::Postgres);
    let pool = Pool::builder(Manager::new(db.url().parse()?, NoTls)).max_size(8).build()?;
    migrate(&pool).await?;
    db.execute("create table orders (event text)");

    let mut copies = tokio::task::JoinSet::new();
    for copy in 0..40 {
        let pool = pool.clone();
        copies.spawn(async move { deliver(&pool, &format!("evt_{}", 1 + copy % 2)).await });
    }
    let outcomes = copies.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Once::Fresh).count(), 2);
    assert_eq!(db.query("select event from orders order by event"), [["evt_1"], ["evt_2"]]);
    println!("40 deliveries of 2 events: 2 orders");
    Ok(())
}
