//! A receiver that has each effect once: the key and the effect are one transaction.
//!
//! Usage: RECEIVER_SECRET=whsec_… receiver PORT DATABASE
//!
//! The secret is the destination's: without it anybody who reaches the port could have effects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::{Json, Router, routing::any};
use oncebox::Clock;
use oncebox_verify::{Request, Secret, Source, Verdict};
use rusqlite::Connection;
use serde_json::{Value, json};

struct Receiver {
    sender: Source,
    clock: Clock,
    database: Mutex<Connection>,
    calls: AtomicUsize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(port), Some(database)) = (args.next(), args.next()) else { return Err("usage: PORT DATABASE".into()) };
    let secret =
        std::env::var("RECEIVER_SECRET").map_err(|_unset| "set RECEIVER_SECRET to the destination's secret")?;
    // Calls are signed by Standard Webhooks, which is in the catalogue.
    let sender = Source::of_provider("oncebox", "standard-webhooks", [Secret::new(secret)])?;
    let database = Connection::open(database)?;
    database.execute("CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, body TEXT NOT NULL)", [])?;
    let receiver = Arc::new(Receiver {
        sender,
        clock: Clock::system(),
        database: Mutex::new(database),
        calls: AtomicUsize::new(0),
    });
    let router = Router::new().fallback(any(receive)).with_state(receiver);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}

async fn receive(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> (StatusCode, Json<Value>) {
    // A call without a key, such as a GET, only asks.
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        let effects = receiver.effects().ok();
        return (StatusCode::OK, Json(json!({"calls": receiver.calls.load(Ordering::SeqCst), "effects": effects})));
    };
    if !receiver.is_genuine(&headers, &body) {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "not signed with our secret"})));
    }
    receiver.calls.fetch_add(1, Ordering::SeqCst);
    match receiver.apply(key, &String::from_utf8_lossy(&body)) {
        Ok(first) => (StatusCode::OK, Json(json!({ "first": first }))),
        // Not done, so not 2xx: the message comes again under the same key.
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"error": error.to_string()}))),
    }
}

impl Receiver {
    fn is_genuine(&self, headers: &HeaderMap, body: &Bytes) -> bool {
        let (headers, body) = (headers.clone(), body.clone());
        let request = Request { method: Method::POST, target: "/".to_owned(), headers, body };
        matches!(self.sender.judge(&request, None, self.clock.now()), Verdict::Accept(_))
    }

    /// True the first time.
    fn apply(&self, key: &str, body: &str) -> rusqlite::Result<bool> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let tx = database.transaction()?;
        // Insert first: the unique key decides, and no row means that we did this before.
        let first = tx.execute("INSERT INTO effects VALUES (?1, ?2) ON CONFLICT DO NOTHING", [key, body])? == 1;
        // … your own writes, only if first, in this same transaction …
        tx.commit()?;
        Ok(first)
    }

    fn effects(&self) -> rusqlite::Result<i64> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        database.query_row("SELECT count(*) FROM effects", [], |row| row.get(0))
    }
}
