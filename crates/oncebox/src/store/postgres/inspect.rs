//! Whose an identity is, on Postgres.

use std::collections::HashMap;

use uuid::Uuid;

use crate::event::EventKey;
use crate::store::StoreError;
use crate::store::postgres::{Database, classify};
use crate::store::sql::postgres as sql;
use oncebox_verify::Identity;

impl Database {
    pub(in crate::store) async fn ledger_keys(
        &self,
        identities: &[Identity],
    ) -> Result<Vec<Option<EventKey>>, StoreError> {
        let ids: Vec<Uuid> = identities.iter().map(|identity| Uuid::from_bytes(*identity.as_bytes())).collect();
        let client = self.lone_reader().await?;
        let rows = client.query(sql::LEDGER_KEYS, &[&ids]).await.map_err(classify)?;
        let mut keys = HashMap::with_capacity(rows.len());
        for row in rows {
            let (identity, key): (Uuid, Uuid) = (row.try_get(0).map_err(classify)?, row.try_get(1).map_err(classify)?);
            keys.insert(identity, EventKey::from_bytes(key.into_bytes()));
        }
        Ok(ids.iter().map(|id| keys.get(id).copied()).collect())
    }
}
