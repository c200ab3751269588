//! Secrets that a handshake brings: a person arms a source, the next handshake's secret is kept, and no other after it.
//!
//! Armed and kept are one row, so that every node knows; taking one is a conditional update, so that of two handshakes at
//! once exactly one wins. What is kept is sealed before it comes here. Arming ends by itself: whoever armed and forgot has
//! not left a door open for the next stranger.

use crate::clock::UnixMillis;
use crate::store::{Asked, Commit, Store, StoreError, Value, sql};

/// For how long a source stays armed, in milliseconds.
pub const ARMED_FOR_MS: i64 = 10 * 60 * 1000;

/// What is known of a source's arrived secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedSecret {
    /// The source.
    pub source: String,
    /// True until a handshake's secret was taken or the source was disarmed; [`ArrivedSecret::is_armed_at`] tells whether
    /// it still counts.
    pub armed: bool,
    /// The secret that arrived last, sealed; none before the first.
    pub sealed: Option<Vec<u8>>,
    /// When it was armed or taken.
    pub changed_at: UnixMillis,
}

impl ArrivedSecret {
    /// True while the next handshake's secret will be taken.
    pub fn is_armed_at(&self, now: UnixMillis) -> bool {
        self.armed && self.changed_at > now.saturating_sub(ARMED_FOR_MS)
    }
}

/// What became of a secret that a handshake brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is on disk.
    Kept,
    /// Nobody waits for one.
    NotArmed,
}

impl Store {
    /// Waits for the next secret of a source, with a line in the audit log; the one that is there stays until then.
    pub async fn arm_secret_as(&self, asked: &Asked, source: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        tx.execute(&sql::ARM_SECRET, vec![source.into(), asked.at.into()]).await?;
        tx.log_action(asked, "arm", &serde_json::json!({ "source": source }).to_string(), 1).await?;
        ended(tx.commit().await)
    }

    /// Waits no longer, with a line in the audit log; false where nobody waited.
    pub async fn disarm_secret_as(&self, asked: &Asked, source: &str) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let rows = tx.execute(&sql::DISARM_SECRET, vec![source.into(), asked.at.into()]).await?;
        if rows > 0 {
            tx.log_action(asked, "disarm", &serde_json::json!({ "source": source }).to_string(), 1).await?;
        }
        ended(tx.commit().await)?;
        Ok(rows > 0)
    }

    /// Keeps a secret if its source is armed, and disarms it, with a line in the audit log about who brought it.
    pub async fn keep_secret(&self, asked: &Asked, source: &str, sealed: Vec<u8>) -> Result<Kept, StoreError> {
        let mut tx = self.begin().await?;
        let armed_since = asked.at.saturating_sub(ARMED_FOR_MS);
        let values = vec![source.into(), Value::Bytes(sealed), asked.at.into(), armed_since.into()];
        let rows = tx.execute(&sql::KEEP_SECRET, values).await?;
        if rows == 1 {
            tx.log_action(asked, "secret", &serde_json::json!({ "source": source }).to_string(), 1).await?;
        }
        ended(tx.commit().await)?;
        Ok(if rows == 1 { Kept::Kept } else { Kept::NotArmed })
    }

    /// Every source that was ever armed.
    pub async fn arrived_secrets(&self) -> Result<Vec<ArrivedSecret>, StoreError> {
        let rows = self.query(&sql::ARRIVED_SECRETS, vec![Value::Bytes(Vec::new())]).await?;
        let read = |row: &crate::store::Row| {
            Ok(ArrivedSecret {
                source: row.text(0)?,
                armed: row.int(1)? == 1,
                sealed: Some(row.bytes(2)?).filter(|sealed| !sealed.is_empty()),
                changed_at: row.int(3)?,
            })
        };
        rows.iter().map(read).collect()
    }
}

fn ended(commit: Commit) -> Result<(), StoreError> {
    match commit {
        Commit::Committed => Ok(()),
        Commit::Failed(error) | Commit::Unknown(error) => Err(error),
    }
}
