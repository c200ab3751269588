//! Providers: how a kind of sender signs, names and types its events.

use crate::verdict::OnRepeat;

/// A provider described as data: a catalogue entry, a user's own description, or one laid over the other.
#[derive(Clone, Debug, Default)]
pub struct Description {}

/// Why a description's key was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key it is about, as written in the config (`sig`, `ts.past`, `secrets`, …).
    pub key: String,
    /// What is wrong, and then the cure, as two sentences in lower case without a full stop.
    pub message: String,
    /// What to write instead.
    pub cure: String,
}

impl Description {
    /// The keys a description may have.
    pub const KEYS: &'static [&'static str] = &[];

    /// The catalogue entry of this slug.
    pub fn named(_slug: &str) -> Option<Self> {
        None
    }

    /// Sets one key from its TOML value.
    pub fn set(&mut self, _key: &str, _value: &toml::Value) -> Result<(), Problem> {
        Ok(())
    }
}

/// All slugs of the catalogue, sorted, `custom` included.
pub fn names() -> Vec<&'static str> {
    Vec::new()
}

/// Names of the further settings that the description's scheme reads (`public_url`, `verify_token`, …).
pub const SETTINGS: &[&str] = &[
    "public_url",
    "verify_token",
    "app_key",
    "secondary",
    "next",
    "public_key",
    "topic_arn",
    "cert_url",
    "audience",
    "issuer",
    "service_account",
    "kid",
    "webhook_id",
];

/// The words of `repeated_body` in the config.
pub fn parse_repeated_body(word: &str) -> Option<OnRepeat> {
    match word {
        "run" => Some(OnRepeat::Run),
        "hold" => Some(OnRepeat::Hold),
        "duplicate" => Some(OnRepeat::Duplicate),
        _ => None,
    }
}
