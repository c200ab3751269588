//! The other servers that are written in Rust: what a careful engineer writes in an afternoon.

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use lab::stripe;
use redis::aio::MultiplexedConnection;
use ring::hmac;
use serde::Deserialize;
use tokio_postgres::NoTls;

/// Names the database of those that store.
pub(crate) const DATABASE_VARIABLE: &str = "DATABASE_URL";
/// The table of those that store in Postgres, in any language.
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
    /// The same, and one `SET … NX` a request: the id alone, without the event.
    Redis,
}

#[derive(Clone)]
enum Inbox {
    Nothing,
    Postgres(Pool),
    Redis(MultiplexedConnection),
}

#[derive(Clone)]
struct App {
    key: Arc<hmac::Key>,
    inbox: Inbox,
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
        let url = || std::env::var(DATABASE_VARIABLE).context(DATABASE_VARIABLE);
        let inbox = match self {
            Self::Ceiling => Inbox::Nothing,
            Self::Naive => {
                let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
                let manager = Manager::from_config(url()?.parse()?, NoTls, recycling);
                Inbox::Postgres(Pool::builder(manager).max_size(POOL).build()?)
            }
            // One connection that requests share, as its documentation says; commands go out together.
            Self::Redis => {
                Inbox::Redis(redis::Client::open(url()?.as_str())?.get_multiplexed_async_connection().await?)
            }
        };
        let app = App { key: Arc::new(stripe::key()), inbox };
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
    match app.inbox.store(&event, &body).await {
        Ok(true) => (StatusCode::OK, r#"{"status":"accepted"}"#),
        Ok(false) => (StatusCode::OK, r#"{"status":"duplicate"}"#),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, ""),
    }
}

impl Inbox {
    /// True when it was new.
    async fn store(&self, event: &Event<'_>, body: &[u8]) -> anyhow::Result<bool> {
        match self {
            Self::Nothing => Ok(true),
            Self::Postgres(pool) => {
                let client = pool.get().await?;
                let statement = client.prepare_cached(INSERT).await?;
                let body = std::str::from_utf8(body)?;
                Ok(client.execute(&statement, &[&event.id, &event.event_type, &body]).await? == 1)
            }
            Self::Redis(connection) => {
                let answer: Option<String> =
                    redis::cmd("SET").arg(event.id).arg(1).arg("NX").query_async(&mut connection.clone()).await?;
                Ok(answer.is_some())
            }
        }
    }
}
