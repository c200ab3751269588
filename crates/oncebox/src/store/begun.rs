//! What a process has begun, on record before it begins it: a claim that was lost before that uses no attempt.

#[cfg(feature = "sqlite")]
use super::{Commit, sql};
use super::{Database, Store, StoreError};
use crate::event::EventKey;

/// Who has begun, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Workers, one delivery by itself.
    Alone,
    /// Workers, several deliveries in one transaction.
    Together,
    /// The relay.
    Relay,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Together => "together",
            Self::Relay => "relay",
        }
    }
}

/// What stands for a claim in the record: the last halves of the id and of the token.
pub(crate) fn mark(id: EventKey, token: EventKey) -> [u8; 16] {
    let mut mark = [0; 16];
    mark[..8].copy_from_slice(&id.as_bytes()[8..]);
    mark[8..].copy_from_slice(&token.as_bytes()[8..]);
    mark
}

impl Store {
    /// Writes down what this registered process has under way in a role, in place of what it wrote before. It outlives the
    /// process; it is not flushed.
    pub async fn write_begun(
        &self,
        node: EventKey,
        role: Role,
        claims: &[(EventKey, EventKey)],
    ) -> Result<(), StoreError> {
        let marks: Vec<u8> = claims.iter().flat_map(|(id, token)| mark(*id, *token)).collect();
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(database) => {
                let mut tx = database.begin_flushed(false).await?;
                tx.run(move |connection| {
                    let mut write =
                        connection.prepare_cached(sql::sqlite::WRITE_BEGUN).map_err(super::sqlite::classify)?;
                    write.execute(rusqlite::params![node, role.as_str(), marks]).map_err(super::sqlite::classify)
                })
                .await?;
                match tx.commit().await {
                    Commit::Committed => Ok(()),
                    Commit::Failed(error) | Commit::Unknown(error) => Err(error),
                }
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(database) => database.write_begun(node, role.as_str(), &marks).await,
        }
    }
}
