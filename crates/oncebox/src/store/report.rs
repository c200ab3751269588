//! What operators read: lists, counts and findings.

pub(super) mod deliveries;
pub(super) mod events;
pub(super) mod inspect;
pub(super) mod key_range;
pub(super) mod messages;
pub(super) mod reconcile;
pub(super) mod schema_pieces;

use super::sql::Statement;
use super::{Store, StoreError, Value};
use crate::database::{FromRow, first};

/// Says which fields of a record the columns of a row are, in their order.
macro_rules! columns {
    ($record:ident: $($field:ident),+) => {
        impl crate::database::FromRow for $record {
            fn from_row(row: &crate::database::Row) -> Result<Self, crate::database::StoreError> {
                let mut columns = 0_usize..;
                $(let $field = row.get(columns.next().unwrap_or_default())?;)+
                Ok(Self { $($field),+ })
            }
        }
    };
}

pub(super) use columns;

impl Store {
    pub(super) async fn list<T: FromRow>(&self, asked: &Statement, values: Vec<Value>) -> Result<Vec<T>, StoreError> {
        self.query(asked, values).await?.iter().map(T::from_row).collect()
    }

    pub(super) async fn first<T: FromRow>(
        &self,
        asked: &Statement,
        values: Vec<Value>,
    ) -> Result<Option<T>, StoreError> {
        first(&self.query(asked, values).await?)
    }

    /// What a statement counts.
    pub(super) async fn number(&self, asked: &Statement, values: Vec<Value>) -> Result<i64, StoreError> {
        Ok(self.first(asked, values).await?.unwrap_or(0))
    }
}
