//! Forgetting: an identity leaves the ledger, so that the sender's next copy is new.

use super::action_filter::ActionFilter;
use super::actions::{Action, ActionError, FIRST, Progress, SLICE, Slice, first_int, waits};
use super::{Row, Store, StoreError, Tx, Value, sql};
use crate::event::{Digest, EventKey, Identity};

impl Store {
    /// One that is named is counted exactly; of many, those that were forgotten before are counted, too: to leave them out
    /// each would have to be looked up.
    pub(super) async fn count_forgettable(&self, filter: &ActionFilter) -> Result<i64, ActionError> {
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
        let mut values = ActionFilter { key: Some(key), ..ActionFilter::default() }.of_events(FIRST, self.dialect());
        values.extend([Value::Null, SLICE.into()]);
        let rows = self.query(&sql::ACTION_EVENTS, values).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let digest = digest(row)?;
        let identity = EventKey::from_bytes(*identity(row, key, &digest)?.as_bytes());
        let found = first_int(&self.query(&sql::HAS_IDENTITY, vec![identity.into(), key.into()]).await?)?;
        if found > 0 || !may_be_joined(row)? {
            return Ok(found > 0);
        }
        Ok(first_int(&self.query(&sql::HAS_LEDGER_KEY, vec![key.into()]).await?)? > 0)
    }

    async fn count_events(&self, filter: &ActionFilter) -> Result<i64, ActionError> {
        let state = filter.state.as_deref();
        let mut values = filter.of_events(EventKey::from_bytes([0; 16]), self.dialect());
        values.extend([state.into()]);
        let statement = if waits(state) { &sql::WAITING_ACTION_COUNT } else { &sql::ACTION_COUNT_EVENTS };
        Ok(first_int(&self.query(statement, values).await?)?)
    }
}

impl Tx {
    pub(super) async fn forget_slice(&mut self, action: &Action, at: &Progress) -> Result<Slice, StoreError> {
        let (rows, reached) = self.events_slice(&action.filter, action.filter.state.as_deref(), at).await?;
        let mut slice = Slice { acted: 0, reached };
        for row in &rows {
            let key = row.key(0)?;
            let source = row.text(1)?;
            let digest = digest(row)?;
            let identity = EventKey::from_bytes(*identity(row, key, &digest)?.as_bytes());
            let mut gone = self.execute(&sql::FORGET_IDENTITY, vec![identity.into(), key.into()]).await?;
            if gone == 0 && may_be_joined(row)? {
                gone = self.execute(&sql::FORGET_KEY, vec![key.into()]).await?;
            }
            // Whatever came with it may come again.
            self.execute(&sql::FORGET_FINGERPRINTS, vec![key.into()]).await?;
            if gone > 0 {
                self.subtract_ledger_rows(std::iter::once(source.as_str())).await?;
            }
            slice.acted += i64::try_from(gone).unwrap_or(0);
        }
        Ok(slice)
    }
}

pub(super) fn digest(row: &Row) -> Result<Digest, StoreError> {
    Digest::try_from(row.bytes(5)?.as_slice()).map_err(|_length| StoreError::Corrupt { what: "digest" })
}

/// Whether the id may have been made of several parts, which are shown with colons between them. A conflict is in the
/// ledger under what it is known by when it comes again, and that stays.
fn may_be_joined(row: &Row) -> Result<bool, StoreError> {
    Ok(row.text(2)?.contains(':') && row.text(6)? != "conflict")
}

/// The identity under which the event was stored, unless its id was joined.
pub(super) fn identity(row: &Row, key: EventKey, digest: &Digest) -> Result<Identity, StoreError> {
    let (source, id) = (row.text(1)?, row.text(2)?);
    Ok(match row.text(4)?.as_str() {
        "id" => Identity::of_id(&source, id.as_bytes()),
        "id+body" => Identity::of_id_and_body(&source, id.as_bytes(), digest),
        "body" => Identity::of_body(&source, digest),
        _ => Identity::of_arrival(&source, key.as_bytes()),
    })
}
