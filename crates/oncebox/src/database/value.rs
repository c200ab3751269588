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
        self.optional_text(column)?.ok_or(StoreError::Corrupt { what: "text" })
    }

    /// Text or nothing.
    pub fn optional_text(&self, column: usize) -> Result<Option<String>, StoreError> {
        match self.0.get(column) {
            Some(Value::Text(value)) => Ok(Some(value.clone())),
            Some(Value::Null) => Ok(None),
            _ => Err(StoreError::Corrupt { what: "text" }),
        }
    }

    /// A whole number or nothing.
    pub fn optional_int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            _ => self.int(column).map(Some),
        }
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
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            _ => self.bytes(column).map(Some),
        }
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
        self.optional_key(column)?.ok_or(StoreError::Corrupt { what: "key" })
    }

    /// A key or nothing.
    pub fn optional_key<K>(&self, column: usize) -> Result<Option<Key<K>>, StoreError> {
        match self.0.get(column) {
            Some(Value::Key(key)) => Ok(Some(Key::from_bytes(*key.as_bytes()))),
            Some(Value::Null) => Ok(None),
            Some(Value::Bytes(bytes)) => match <[u8; 16]>::try_from(bytes.as_slice()) {
                Ok(bytes) => Ok(Some(Key::from_bytes(bytes))),
                Err(_) => Err(StoreError::Corrupt { what: "key" }),
            },
            _ => Err(StoreError::Corrupt { what: "key" }),
        }
    }
}
