//! Reads one key of a description from its TOML value, with an error that names the key and the cure.
//!
//! An error never quotes the value: people put a secret under the wrong key sooner or later.

use std::time::Duration;

use http::HeaderName;
use toml::Value;

use crate::Problem;
use crate::units::{parse_duration, parse_size};

#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    key: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    pub(crate) fn new(key: impl Into<String>, value: &'a Value) -> Self {
        Self { key: key.into(), value }
    }

    pub(crate) fn problem(&self, message: impl Into<String>, cure: impl Into<String>) -> Problem {
        Problem::new(self.key.as_str(), message, cure)
    }

    pub(crate) fn text(&self) -> Result<&'a str, Problem> {
        self.value.as_str().ok_or_else(|| self.problem("this must be text", "write it in quotes"))
    }

    pub(crate) fn texts(&self) -> Result<Vec<&'a str>, Problem> {
        let wrong = || self.problem("this must be text or a list of texts", "write \"…\" or [\"…\", \"…\"]");
        match self.value {
            Value::String(text) => Ok(vec![text]),
            Value::Array(items) => items.iter().map(|item| item.as_str().ok_or_else(wrong)).collect(),
            _ => Err(wrong()),
        }
    }

    /// Header names; `x-name-*` stands for all that start so.
    pub(crate) fn headers(&self) -> Result<Vec<String>, Problem> {
        let texts = self.texts()?;
        let is_name = |text: &&str| HeaderName::try_from(text.strip_suffix('*').unwrap_or(text)).is_ok();
        if texts.is_empty() || !texts.iter().all(is_name) {
            return Err(
                self.problem("this is no header name", "write the name as the vendor documents it, without a colon")
            );
        }
        Ok(texts.iter().map(|text| text.to_ascii_lowercase()).collect())
    }

    pub(crate) fn flag(&self) -> Result<bool, Problem> {
        self.value
            .as_bool()
            .ok_or_else(|| self.problem("this must be true or false", "write true or false, without quotes"))
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&self) -> Result<u32, Problem> {
        let number = self.value.as_integer().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| self.problem("this must be a whole number", "write digits without quotes"))
    }

    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Problem> {
        let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let found = self.value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| self.problem("this word is not known", format!("write one of {}", known())))
    }

    /// Seconds, as a number or `"90s"`, `"5m"`, `"1h30m"`, `"3d"`.
    pub(crate) fn seconds(&self) -> Result<u32, Problem> {
        let whole = |time: Duration| (time.subsec_millis() == 0).then_some(time.as_secs());
        self.amount(|text| parse_duration(text).and_then(whole), "write \"90s\", \"5m\", \"24h\" or \"3d\"")
    }

    /// Bytes, as a number or `"512KiB"`, `"25MiB"`.
    pub(crate) fn bytes(&self) -> Result<u32, Problem> {
        let read = |text: &str| u64::try_from(parse_size(text)?).ok();
        self.amount(read, "write \"512KiB\" or \"25MiB\"")
    }

    /// The fields of a table, all of them among `names`, which blanks separate.
    pub(crate) fn table(&self, names: &str) -> Result<Vec<(&'a str, Self)>, Problem> {
        let fields = self.any_table()?;
        match fields.iter().find(|(name, _)| !names.split(' ').any(|known| known == *name)) {
            Some((_, field)) => {
                let cure = format!("use one of {}", names.replace(' ', ", "));
                Err(field.problem("this field is not known here", cure))
            }
            None => Ok(fields),
        }
    }

    /// The fields of a table with names of the operator's choice.
    pub(crate) fn any_table(&self) -> Result<Vec<(&'a str, Self)>, Problem> {
        let table =
            self.value.as_table().ok_or_else(|| self.problem("this must be a table", "write { name = value, … }"))?;
        Ok(table
            .iter()
            .map(|(name, value)| (name.as_str(), Self::new(format!("{}.{name}", self.key), value)))
            .collect())
    }

    pub(crate) fn tables(&self) -> Vec<Self> {
        match self.value {
            Value::Array(items) => items.iter().map(|item| Self::new(self.key.clone(), item)).collect(),
            _ => vec![self.clone()],
        }
    }

    fn amount(&self, read: impl Fn(&str) -> Option<u64>, cure: &str) -> Result<u32, Problem> {
        let number = match self.value {
            Value::String(text) => read(text),
            Value::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| self.problem("this amount cannot be read", cure))
    }
}
