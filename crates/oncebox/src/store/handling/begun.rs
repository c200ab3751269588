//! What a process has begun, on record before it begins it: a claim that was lost before that uses no attempt.

use crate::event::{Key, LeaseToken, NodeKey};
#[cfg(feature = "sqlite")]
use crate::store::sqlite::begun::BegunFile;
use crate::store::{Database, Store, StoreError, Tx};
#[cfg(feature = "sqlite")]
use crate::store::{Value, sql};

pub(in crate::store) const MARK_BYTES: usize = 16;

/// What stands for a claim in the record: the last halves of its id and of its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BegunClaim([u8; MARK_BYTES]);

impl BegunClaim {
    /// The claim of a delivery or of a message.
    pub fn new<K>(id: Key<K>, token: LeaseToken) -> Self {
        let mut mark = [0; MARK_BYTES];
        mark[..8].copy_from_slice(&id.as_bytes()[8..]);
        mark[8..].copy_from_slice(&token.as_bytes()[8..]);
        Self(mark)
    }
}

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
    #[cfg(feature = "postgres")]
    fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Together => "together",
            Self::Relay => "relay",
        }
    }
}

impl Store {
    /// Records what this registered process has under way in a role, in place of what it recorded before. It outlives the
    /// process; it is not flushed.
    pub async fn write_begun(&self, node: NodeKey, role: Role, claims: &[BegunClaim]) -> Result<(), StoreError> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(database) => match database.begun() {
                Some(begun) => {
                    // An earlier process's record makes room for this one's.
                    if begun.record().is_some_and(|record| record.node != node) {
                        self.begin_judging().await?.commit_or_fail().await?;
                    }
                    write_to(begun, node, role, claims)
                }
                None => {
                    let mut tx = self.begin().await?;
                    tx.copy_begun(node, |one| (one == role).then(|| marks(claims))).await?;
                    tx.commit_or_fail().await
                }
            },
            #[cfg(feature = "postgres")]
            Database::Postgres(database) => database.write_begun(node, role.as_str(), &marks(claims)).await,
        }
    }

    /// As [`Store::write_begun`], for a process that has recorded something before; none where that takes a transaction.
    pub(crate) fn write_begun_now(
        &self,
        node: NodeKey,
        role: Role,
        claims: &[BegunClaim],
    ) -> Option<Result<(), StoreError>> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(database) => Some(write_to(database.begun()?, node, role, claims)),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => {
                let _ = (node, role, claims);
                None
            }
        }
    }

    /// Begins a transaction that judges lost claims: the database knows in it what had begun.
    pub(in crate::store) async fn begin_judging(&self) -> Result<Tx, StoreError> {
        let tx = self.begin().await?;
        #[cfg(feature = "sqlite")]
        if let Database::Sqlite(database) = &self.database
            && let Some(record) = database.begun().and_then(BegunFile::record)
        {
            let mut tx = tx;
            tx.copy_begun(record.node, |role| record.marks(role)).await?;
            return Ok(tx);
        }
        Ok(tx)
    }
}

#[cfg(feature = "sqlite")]
impl Tx {
    async fn copy_begun(&mut self, node: NodeKey, marks: impl Fn(Role) -> Option<Vec<u8>>) -> Result<(), StoreError> {
        let marks = |role| marks(role).map_or(Value::Null, Value::Bytes);
        let values = vec![node.into(), marks(Role::Alone), marks(Role::Together), marks(Role::Relay)];
        self.execute(&sql::COPY_BEGUN, values).await.map(drop)
    }
}

#[cfg(feature = "sqlite")]
fn write_to(begun: &BegunFile, node: NodeKey, role: Role, claims: &[BegunClaim]) -> Result<(), StoreError> {
    begun.write(node, role, &marks(claims)).map_err(|error| {
        StoreError::Disconnected(format!("what is begun cannot be written to the lock file: {error}").into())
    })
}

fn marks(claims: &[BegunClaim]) -> Vec<u8> {
    claims.iter().flat_map(|claim| claim.0).collect()
}
