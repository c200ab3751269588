//! Forgetting: an identity leaves the ledger, so that the sender's next copy is new.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{EventKey, Position};
use crate::store::operate::action_filter::ActionFilter;
use crate::store::operate::actions::{Action, ActionError, Progress, Slice, count, waits};
use crate::store::{Row, Store, StoreError, Tx, TxInner, sql};
use oncebox_verify::{Digest, Identity};

impl Store {
    /// One that is named is counted exactly; of many, those that were forgotten before are counted, too: to leave them out
    /// each would have to be looked up.
    pub(in crate::store) async fn count_forgettable(&self, filter: &ActionFilter) -> Result<i64, ActionError> {
        let count = match filter.state.as_deref() {
            // It has no identity of its own.
            Some("conflict") => 0,
            _ => self.count_events(filter).await?,
        };
        let Some(key) = filter.key.filter(|_| count > 0) else { return Ok(count) };
        Ok(if self.is_remembered(key).await? { count } else { 0 })
    }

    /// Whether a duplicate of this event would be known as one.
    pub async fn is_remembered(&self, key: EventKey) -> Result<bool, StoreError> {
        let rows = self.query(&sql::EVENT_BY_KEY, vec![key.into()]).await?;
        let Some(row) = rows.first().filter(|row| !is_conflict(row)) else { return Ok(false) };
        let identity = EventKey::from_bytes(*identity(row, key, &digest(row)?)?.as_bytes());
        let found = self.number(&sql::HAS_IDENTITY, vec![identity.into(), key.into()]).await?;
        // Not every identity can be made anew from the row; the ledger's own key can always be asked for.
        Ok(found > 0 || self.number(&sql::HAS_LEDGER_KEY, vec![key.into()]).await? > 0)
    }

    async fn count_events(&self, filter: &ActionFilter) -> Result<i64, ActionError> {
        let state = filter.state.as_deref();
        let mut values = filter.of_events(Position::MIN, self.dialect());
        values.push(state.into());
        let statement = if waits(state) { &sql::WAITING_ACTION_COUNT } else { &sql::ACTION_COUNT_EVENTS };
        Ok(self.number(statement, values).await?)
    }
}

impl Tx {
    pub(in crate::store) async fn forget_slice(&mut self, action: &Action, at: &Progress) -> Result<Slice, StoreError> {
        let (rows, reached) = self.events_slice(&action.filter, action.filter.state.as_deref(), at).await?;
        // In the order of their keys. A conflict is in the ledger under what it is known by when it comes again: that stays.
        let named = rows.iter().filter(|row| !is_conflict(row));
        let sources =
            named.map(|row| Ok((row.key(0)?, row.text(1)?))).collect::<Result<BTreeMap<_, _>, StoreError>>()?;
        // By key, not by an identity that is made anew: the parts of an id, or what a signature covers, are not in the row.
        let keys: Vec<EventKey> = sources.keys().copied().collect();
        let (gone, _) = by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.remove_names(keys).await?,
            TxInner::Postgres(tx) => tx.remove_names(&keys).await?,
        );
        let gone: BTreeSet<EventKey> = gone.into_iter().collect();
        self.subtract_ledger_rows(gone.iter().filter_map(|key| sources.get(key)).map(String::as_str)).await?;
        Ok(Slice { acted: count(gone.len()), reached })
    }
}

pub(in crate::store) fn digest(row: &Row) -> Result<Digest, StoreError> {
    Digest::try_from(row.bytes(5)?.as_slice()).map_err(|_length| StoreError::Corrupt { what: "digest" })
}

fn is_conflict(row: &Row) -> bool {
    row.text(6).is_ok_and(|state| state == "conflict")
}

/// The identity under which the event was stored, unless its id was joined or its signature covers other bytes.
pub(in crate::store) fn identity(row: &Row, key: EventKey, digest: &Digest) -> Result<Identity, StoreError> {
    let (source, id) = (row.text(1)?, row.text(2)?);
    Ok(match row.text(4)?.as_str() {
        "id" => Identity::of_id(&source, id.as_bytes()),
        "id+body" => Identity::of_id_and_body(&source, id.as_bytes(), digest),
        "body" => Identity::of_body(&source, digest),
        _ => Identity::of_arrival(&source, key.as_bytes()),
    })
}
