//! Parsing of arguments that may hold a secret: clap repeats a bad value in its error, this parser does not.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use oncebox_verify::Secret;

use crate::config::store::StoreUrl;

/// Parses without ever repeating the value; the error of the parser is a sentence without it.
#[derive(Clone)]
pub(crate) struct Private<T>(pub(crate) fn(&str) -> Result<T, String>);

/// Takes a secret as it is.
pub(crate) fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

/// Takes the content of a file for a secret: what stands in the command itself, every user of the machine can read.
pub(crate) fn secret_in_file(path: &str) -> Result<Secret, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("the file cannot be read ({})", error.kind()))?;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    Ok(Secret::new(bytes.strip_suffix(b"\r").unwrap_or(bytes)))
}

pub(crate) fn secret_in_env(name: &str) -> Result<Secret, String> {
    std::env::var(name).map(Secret::new).map_err(|_unset| "this environment variable is not set".to_owned())
}

pub(crate) fn store_url(text: &str) -> Result<StoreUrl, String> {
    StoreUrl::parse(text).map_err(|(what, cure)| format!("the URL {what}; {cure}"))
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Private<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let parsed = match value.to_str() {
            Some(text) => (self.0)(text),
            None => Err("the value is not UTF-8".to_owned()),
        };
        parsed.map_err(|sentence| {
            let option = arg.map(ToString::to_string).unwrap_or_default();
            Error::raw(ErrorKind::ValueValidation, format!("invalid value for '{option}': {sentence}\n"))
                .with_cmd(command)
        })
    }
}
