//! Calls that leave the database: written as messages in your own transaction, sent by the relay once it has committed.
//!
//! A message of a transaction that rolls back never was; one that commits goes out at least once, always under the same
//! key. The relay runs in the gateway, or wherever somebody starts it on the same database.

use crate::database::{Dialect, StoreError, Transaction, Value, execute, query, sql};
use crate::message::{Message, Origin};

/// Writes a message in your own open transaction.
///
/// With a key of your own ([`Message::key`]) a second write of the same message changes nothing; without, every write is
/// another message. Inside a handler use [`Context::send`](crate::embed::inbox::Context::send), which derives the key.
///
/// ```
/// use oncebox::database::{StoreError, Transaction};
/// use oncebox::{Message, outbox};
///
/// async fn confirm<T: Transaction>(tx: &mut T, order: u64) -> Result<(), StoreError> {
///     let mail = Message::new("mail", format!("{{\"order\":{order}}}")).key(format!("confirmation-{order}"));
///     // The relay sends it once this transaction has committed, and never if it rolls back.
///     outbox::send(tx, &mail).await
/// }
/// ```
pub async fn send<T: Transaction>(tx: &mut T, message: &Message) -> Result<(), StoreError> {
    message.check().map_err(|wrong| StoreError::Refused(wrong.into()))?;
    let (delivery, step, key) = match &message.origin {
        Origin::Delivery { delivery, step } => ((*delivery).into(), step.as_str().into(), Value::Null),
        Origin::Given(key) => (Value::Null, Value::Null, key.as_str().into()),
        Origin::Fresh => (Value::Null, Value::Null, Value::Null),
    };
    let values = vec![
        message.destination.as_str().into(),
        Value::Bytes(message.body.clone()),
        delivery,
        step,
        message.path.as_str().into(),
        message.method.as_str().into(),
        message.headers_json().as_str().into(),
        key,
        message.order_key.as_deref().into(),
    ];
    // The same function or view that SQL uses.
    match tx.dialect() {
        Dialect::Postgres => query(tx, &sql::SEND, values).await.map(drop),
        Dialect::Sqlite => execute(tx, &sql::SEND, values).await.map(drop),
    }
}
