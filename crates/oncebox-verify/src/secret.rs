//! A secret that cannot be printed by accident.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretSlice};

/// Bytes that never show: `Debug` and `Display` print `***`, the memory is wiped on drop.
#[derive(Clone)]
pub struct Secret {
    bytes: SecretSlice<u8>,
    name: Option<Arc<str>>,
}

impl Secret {
    /// Takes the secret exactly as the operator wrote it.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into().into(), name: None }
    }

    /// The same under a name that may be shown: the variable or the file it came from.
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The name that may be shown.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The bytes, for the code that signs or compares.
    pub fn expose(&self) -> &[u8] {
        self.bytes.expose_secret()
    }

    /// True when nothing but white space was given: such a secret protects nothing and is refused.
    pub fn is_blank(&self) -> bool {
        self.expose().iter().all(u8::is_ascii_whitespace)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
