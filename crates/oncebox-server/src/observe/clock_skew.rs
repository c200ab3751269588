//! How far our clock is from the database's. On SQLite both are one.

use oncebox::Clock;
use oncebox::gateway::store::{Store, StoreError};

/// Milliseconds by which we are ahead, as good as a round trip allows.
pub(crate) async fn against_database(store: &Store, clock: &Clock) -> Result<i64, StoreError> {
    let asked = clock.now();
    let theirs = store.database_time(asked).await?;
    // Theirs was read somewhere between the two.
    let answered = if store.kind() == "sqlite" { asked } else { clock.now() };
    Ok(asked.midpoint(answered) - theirs)
}
