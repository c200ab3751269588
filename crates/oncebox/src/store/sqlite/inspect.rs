//! Whose an identity is, on SQLite.

use rusqlite::OptionalExtension as _;

use crate::event::EventKey;
use crate::store::StoreError;
use crate::store::sql::sqlite as sql;
use crate::store::sqlite::{Database, classify};
use oncebox_verify::Identity;

impl Database {
    pub(in crate::store) async fn ledger_keys(
        &self,
        identities: Vec<Identity>,
    ) -> Result<Vec<Option<EventKey>>, StoreError> {
        self.on_lone_reader(move |connection| {
            let mut find = connection.prepare(sql::LEDGER_KEY).map_err(classify)?;
            let mut key = |identity: Identity| {
                let key = find.query_row([identity.as_bytes()], |row| row.get(0)).optional().map_err(classify)?;
                Ok(key.map(EventKey::from_bytes))
            };
            identities.into_iter().map(&mut key).collect()
        })
        .await
    }
}
