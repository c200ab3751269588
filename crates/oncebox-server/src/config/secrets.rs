//! Secrets in the config: `{ env = "NAME" }`, `{ file = "path" }` or `{ value = "…" }`, resolved while reading.
//!
//! Problems name the place and never the content. The name of a variable is shown only if it looks like one, because
//! people paste the secret itself there.

use std::io::ErrorKind;
use std::path::Path;

use oncebox_verify::Secret;
use toml::de::DeValue;

use super::reader::{Item, Table};

const FORM: &str = "{ env = \"NAME\" }, { file = \"path\" } or { value = \"…\" }";

impl<'a> Table<'a> {
    pub(crate) fn secret(&mut self, key: &'a str) -> Option<Secret> {
        self.take(key)?.secret()
    }

    /// Takes a token of our own: a blank one counts as none, and a person is told; a short one is guessed.
    pub(crate) fn token(&mut self, key: &'a str) -> Option<Secret> {
        let item = self.take(key)?;
        item.read_secret(Blank::IsNone).and_then(|token| item.checked(token))
    }

    /// Takes the token of a URL, which cannot be blank.
    pub(crate) fn path_token(&mut self, key: &'a str) -> Option<Secret> {
        let item = self.take(key)?;
        item.read_secret(Blank::IsWrong).and_then(|token| item.checked(token))
    }
}

/// The shortest token that nobody guesses: with 16 random characters there is nothing to try.
const TOKEN_CHARACTERS_MIN: usize = 16;
pub(crate) const TOKEN_CURE: &str = "make one with `openssl rand -hex 32`";

pub(crate) fn is_long_enough(token: &Secret) -> bool {
    String::from_utf8_lossy(token.expose()).chars().count() >= TOKEN_CHARACTERS_MIN
}

/// The key with which `oncebox dev` plays vendors that sign with RSA; everybody can read it.
pub(crate) fn public_development_key() -> String {
    let text = include_str!("../dev/public_development_key.txt");
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

/// What a secret without content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blank {
    IsWrong,
    IsNone,
}

impl Item<'_> {
    pub(crate) fn secret(&self) -> Option<Secret> {
        self.read_secret(Blank::IsWrong)
    }

    fn checked(&self, token: Secret) -> Option<Secret> {
        if is_long_enough(&token) {
            return Some(token);
        }
        self.problem(format!("has fewer than {TOKEN_CHARACTERS_MIN} characters"), TOKEN_CURE);
        None
    }

    fn read_secret(&self, blank: Blank) -> Option<Secret> {
        let DeValue::Table(table) = self.value.get_ref() else {
            self.problem("is not written as a secret", format!("write {FORM}"));
            return None;
        };
        let mut table = Table::new(self.scope.clone(), table);
        let (env, file, value) = (table.take("env"), table.take("file"), table.take("value"));
        table.finish();
        match (env, file, value) {
            (Some(env), None, None) => env.text().and_then(|name| self.env_secret(name, blank)),
            (None, Some(file), None) => file.text().and_then(|path| self.file_secret(path, blank)),
            (None, None, Some(value)) => value.text().and_then(|text| self.value_secret(text, blank)),
            _ => {
                self.problem("needs exactly one of env, file and value", format!("write {FORM}"));
                None
            }
        }
    }

    /// The value as a secret, or as plain text for what is often no secret.
    pub(crate) fn text_or_secret(&self) -> Option<Secret> {
        match self.value.get_ref() {
            DeValue::String(text) => self.value_secret(text, Blank::IsWrong),
            _ => self.secret(),
        }
    }

    fn env_secret(&self, name: &str, blank: Blank) -> Option<Secret> {
        let found = if is_variable(name) { (self.scope.outside.env)(name) } else { None };
        let shown = if is_shouted(name) { name } else { "named here" };
        let Some(value) = found else {
            self.problem(format!("environment variable {shown} is not set"), "set it, or use { file = \"…\" }");
            return None;
        };
        let secret = Secret::new(value);
        let secret = if is_shouted(name) { secret.named(name) } else { secret };
        self.filled(secret, &format!("environment variable {shown} is blank"), "set it", blank)
    }

    fn file_secret(&self, path: &str, blank: Blank) -> Option<Secret> {
        let read = (self.scope.outside.file)(Path::new(path)).map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.problem(format!("file {path:?} does not exist"), "create it"),
            kind => self.problem(format!("file {path:?} cannot be read ({kind})"), "let this user read it"),
        });
        let bytes = read.ok()?;
        // Editors and `echo` end a file with a newline that is no part of the secret.
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let secret = Secret::new(bytes.strip_suffix(b"\r").unwrap_or(bytes));
        let secret = match Path::new(path).file_name().and_then(|name| name.to_str()) {
            Some(name) => secret.named(name),
            None => secret,
        };
        self.filled(secret, &format!("file {path:?} is blank"), "put the secret into it", blank)
    }

    fn value_secret(&self, text: &str, blank: Blank) -> Option<Secret> {
        self.filled(Secret::new(text), "is blank", "write the value, or remove the key", blank)
    }

    fn filled(&self, secret: Secret, what: &str, cure: &str, blank: Blank) -> Option<Secret> {
        if !secret.is_blank() {
            return Some(secret);
        }
        match blank {
            Blank::IsWrong => self.problem(what, cure),
            Blank::IsNone => self.scope.report.warn(format!("{}: {what}: there is no such token", self.scope.path)),
        }
        None
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn is_shouted(name: &str) -> bool {
    name.len() <= 64 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}
