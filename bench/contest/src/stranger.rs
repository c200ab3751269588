//! The other servers: what a careful engineer writes in an afternoon.

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use lab::stripe;
use ring::hmac;
use serde::Deserialize;
use tokio_postgres::NoTls;

/// Names the database of the one that stores.
pub(crate) const DATABASE_VARIABLE: &str = "CONTEST_DATABASE";
/// The table of the one that stores.
pub(crate) const TABLE: &str = "create table inbox (id text primary key, type text not null, body text not null, \
                                received_at timestamptz not null default now())";
const INSERT: &str = "insert into inbox (id, type, body) values ($1, $2, $3) on conflict (id) do nothing";
const POOL: usize = 16;

/// Which of them.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Stranger {
    /// Checks the signature, reads the id and stores nothing: what no inbox can be faster than.
    Ceiling,
    /// The same, and one `INSERT … ON CONFLICT DO NOTHING` a request over a pool of 16 connections.
    Naive,
}

#[derive(Clone)]
struct App {
    key: Arc<hmac::Key>,
    pool: Option<Pool>,
}

#[derive(Deserialize)]
struct Event<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
}

impl Stranger {
    /// Serves until it is killed.
    pub(crate) async fn serve(self, port: u16) -> anyhow::Result<()> {
        let pool = match self {
            Self::Ceiling => None,
            Self::Naive => {
                let url = std::env::var(DATABASE_VARIABLE).context(DATABASE_VARIABLE)?;
                let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
                let manager = Manager::from_config(url.parse()?, NoTls, recycling);
                Some(Pool::builder(manager).max_size(POOL).build()?)
            }
        };
        let app = App { key: Arc::new(stripe::key()), pool };
        let router = Router::new().route("/in/stripe", post(receive)).with_state(app);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
        axum::serve(listener, router).await?;
        Ok(())
    }
}

async fn receive(State(app): State<App>, headers: HeaderMap, body: Bytes) -> (StatusCode, &'static str) {
    let signature = headers.get("stripe-signature").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !stripe::is_signed(&app.key, signature, &body, stripe::now()) {
        return (StatusCode::UNAUTHORIZED, "");
    }
    let Ok(event) = serde_json::from_slice::<Event<'_>>(&body) else { return (StatusCode::BAD_REQUEST, "") };
    let Some(pool) = &app.pool else { return (StatusCode::OK, r#"{"status":"accepted"}"#) };
    match store(pool, &event, &body).await {
        Ok(true) => (StatusCode::OK, r#"{"status":"accepted"}"#),
        Ok(false) => (StatusCode::OK, r#"{"status":"duplicate"}"#),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, ""),
    }
}

/// True when it was new.
async fn store(pool: &Pool, event: &Event<'_>, body: &[u8]) -> anyhow::Result<bool> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(INSERT).await?;
    let body = std::str::from_utf8(body)?;
    Ok(client.execute(&statement, &[&event.id, &event.event_type, &body]).await? == 1)
}
