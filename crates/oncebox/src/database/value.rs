//! The few kinds of values that cross the seam, and rows of them.

use super::StoreError;
use uuid::Uuid;

use crate::event::Key;

/// A value bound to a statement or read from a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number, times included.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Sixteen bytes: `uuid` on Postgres, a blob on SQLite.
    Key(Uuid),
    /// Nothing.
    Null,
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// How many: at most what a column holds.
impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl<K> From<Key<K>> for Value {
    fn from(value: Key<K>) -> Self {
        Self::Key(Uuid::from_bytes(*value.as_bytes()))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of an answer.
#[derive(Clone, Debug)]
pub struct Row(pub(crate) Vec<Value>);

impl Row {
    /// A whole number.
    pub fn int(&self, column: usize) -> Result<i64, StoreError> {
        match self.0.get(column) {
            Some(Value::Int(value)) => Ok(*value),
            _ => Err(StoreError::Corrupt { what: "number" }),
        }
    }

    /// Text.
    pub fn text(&self, column: usize) -> Result<String, StoreError> {
        match self.0.get(column) {
            Some(Value::Text(value)) => Ok(value.clone()),
            _ => Err(StoreError::Corrupt { what: "text" }),
        }
    }

    /// Text or nothing.
    pub fn optional_text(&self, column: usize) -> Result<Option<String>, StoreError> {
        self.get(column)
    }

    /// A whole number or nothing.
    pub fn optional_int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.get(column)
    }

    /// Bytes.
    pub fn bytes(&self, column: usize) -> Result<Vec<u8>, StoreError> {
        match self.0.get(column) {
            Some(Value::Bytes(value)) => Ok(value.clone()),
            Some(Value::Key(value)) => Ok(value.as_bytes().to_vec()),
            _ => Err(StoreError::Corrupt { what: "bytes" }),
        }
    }

    /// Bytes or nothing.
    pub fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(column)
    }

    /// Bytes or nothing, taken out of the row without a copy.
    pub(crate) fn take_bytes(&mut self, column: usize) -> Result<Option<Vec<u8>>, StoreError> {
        match self.0.get_mut(column).map(|value| std::mem::replace(value, Value::Null)) {
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Value::Null) => Ok(None),
            _ => Err(StoreError::Corrupt { what: "bytes" }),
        }
    }

    /// A key.
    pub fn key<K>(&self, column: usize) -> Result<Key<K>, StoreError> {
        let bytes = match self.0.get(column) {
            Some(Value::Key(key)) => Some(*key.as_bytes()),
            Some(Value::Bytes(bytes)) => bytes.as_slice().try_into().ok(),
            _ => None,
        };
        bytes.map(Key::from_bytes).ok_or(StoreError::Corrupt { what: "key" })
    }

    /// A key or nothing.
    pub fn optional_key<K>(&self, column: usize) -> Result<Option<Key<K>>, StoreError> {
        self.get(column)
    }

    pub(crate) fn get<T: FromColumn>(&self, column: usize) -> Result<T, StoreError> {
        T::from_column(self, column)
    }
}

/// What a column is read as.
pub(crate) trait FromColumn: Sized {
    fn from_column(row: &Row, column: usize) -> Result<Self, StoreError>;
}

macro_rules! from_column {
    ($([$($kind:ident)?] $type:ty = $read:ident;)*) => {$(
        impl$(<$kind>)? FromColumn for $type {
            fn from_column(row: &Row, column: usize) -> Result<Self, StoreError> {
                row.$read(column)
            }
        }
    )*};
}

from_column! { [] i64 = int; [] String = text; [] Vec<u8> = bytes; [K] Key<K> = key; }

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(row: &Row, column: usize) -> Result<Self, StoreError> {
        if let Some(Value::Null) = row.0.get(column) { Ok(None) } else { row.get(column).map(Some) }
    }
}

/// What a row is read as: its first column, or a record of all of them.
pub(crate) trait FromRow: Sized {
    fn from_row(row: &Row) -> Result<Self, StoreError>;
}

impl<T: FromColumn> FromRow for T {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        row.get(0)
    }
}

/// The first row of an answer, where there is one.
pub(crate) fn first<T: FromRow>(rows: &[Row]) -> Result<Option<T>, StoreError> {
    rows.first().map(T::from_row).transpose()
}
