//! Exactly once inside an axum handler, with sqlx on Postgres: ten lines of handler, and a storm of duplicates to show
//! that they hold.
//!
//! `cargo run -p oncebox --example axum_sqlx --features axum,sqlx-postgres`

use std::error::Error;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::routing::post;
use oncebox::Clock;
use oncebox::database::migrate;
use oncebox::{Answer, Receiver, Verified};
use oncebox_verify::{Secret, Source};
use sqlx::PgPool;
use testkit::{Backend, TestDatabase};

const SECRET: &str = "whsec_example";

#[derive(Clone)]
struct App {
    pool: PgPool,
    receiver: Receiver,
}

impl FromRef<App> for PgPool {
    fn from_ref(app: &App) -> Self {
        app.pool.clone()
    }
}

impl FromRef<App> for Receiver {
    fn from_ref(app: &App) -> Self {
        app.receiver.clone()
    }
}

#[derive(serde::Deserialize)]
struct Stripe {
    data: Data,
}

#[derive(serde::Deserialize)]
struct Data {
    object: Invoice,
}

#[derive(serde::Deserialize)]
struct Invoice {
    amount: i64,
}

/// The whole webhook: verified before it is called, claimed, written and committed before it is answered.
async fn stripe(State(pool): State<PgPool>, webhook: Verified) -> Answer {
    webhook
        .once(&pool, async |tx, event| {
            let invoice = event.json::<Stripe>()?.data.object;
            let insert = sqlx::query("insert into orders (event, amount) values ($1, $2)");
            insert.bind(&event.id).bind(invoice.amount).execute(&mut **tx).await?;
            Ok(())
        })
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = TestDatabase::fresh(Backend::Postgres);
    let pool = PgPool::connect(db.url()).await?;
    migrate(&pool).await?;
    sqlx::query("create table orders (event text, amount bigint)").execute(&pool).await?;

    let source = Source::of_provider("stripe", "stripe", [Secret::new(SECRET)])?;
    let receiver = Receiver::new(source, Clock::system());

    let app = Router::new().route("/in/stripe", post(stripe)).with_state(App { pool, receiver });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move { axum::serve(listener, app).await });

    storm(address).await?;
    assert_eq!(db.query("select event, amount from orders order by event"), [["evt_1", "100"], ["evt_2", "100"]]);
    println!("40 deliveries of 2 events: 2 orders");
    Ok(())
}

/// Sends every event twenty times, many at once; each must be acknowledged.
async fn storm(address: String) -> Result<(), Box<dyn Error>> {
    let now = Clock::system().now() / 1000;
    let mut copies = tokio::task::JoinSet::new();
    for copy in 0..40 {
        let (address, id) = (address.clone(), format!("evt_{}", 1 + copy % 2));
        let amount = serde_json::json!({ "amount": 100 });
        let signed = testkit::sender::stripe(SECRET, now, &id, "invoice.paid", &amount);
        copies.spawn_blocking(move || signed.post(&address, "stripe").status);
    }
    for status in copies.join_all().await {
        assert_eq!(status, 200);
    }
    Ok(())
}
