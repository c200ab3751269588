//! Dropbox Sign's scheme: inside the event's JSON stands a keyed SHA-256 of its time and type, and of nothing else.
//!
//! So the sender is proved and the document is not, and a hash is good for any document: its time must be near. The JSON is the field `json` of a multipart form, or of a plain one.
//! Time and type are joined without a separator; each must have its one form, or bytes could move between them.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use crate::UnixMillis;
use crate::provider::scheme::{Encoding, Key, KeyForm, Mac, Refused, Unit, Verified, Verifier, Window};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::read::json::{self, Wanted};
use crate::read::{NoText, bytes, form};
use crate::request::Request;
use crate::verdict::Reason;

/// How old an event may be: Dropbox Sign tries for 31 hours, and a retry repeats the time.
const PAST_SECONDS: i64 = 36 * 3600;
const FUTURE_SECONDS: i64 = 300;

const FIELD: &str = "json";
const HASH: &str = "/event/event_hash";
const TIME: &str = "/event/event_time";
const TYPE: &str = "/event/event_type";

#[derive(Clone, Debug)]
pub(crate) struct DropboxSign {
    keys: Vec<Key>,
    window: Window,
}

impl DropboxSign {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let keys = compiling.keys(|secret| Key::new(Mac::HmacSha256, KeyForm::Utf8, secret));
        Some(Box::new(Self { keys, window: compiling.window(PAST_SECONDS, FUTURE_SECONDS) }))
    }
}

impl Verifier for DropboxSign {
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Refused> {
        let document = document(&request.body).ok_or(Reason::MissingSignature)?;
        let [hash, time, kind] = values(&document)?;
        let given = [builtin::decoded(&hash, Encoding::Hex)?];
        let is_word =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let Some(happened_at) = Unit::Seconds.parse(&time).filter(|_| is_word(&kind)) else {
            return Err(Reason::MalformedSignature.into());
        };
        let message = [time.as_bytes().into(), kind.as_bytes().into()];
        let found = self.keys.iter().position(|key| key.verify(&message, &given));
        let index = found.ok_or(Reason::Mismatch)?;
        Unit::Seconds.check(happened_at, now, self.window)?;
        Ok(Verified { opened: Some(document.into_owned().into()), ..Verified::by_key(index) })
    }

    fn sign(&self, mut request: Request, _now: UnixMillis) -> Result<Request, SignError> {
        let key = self.keys.first().ok_or(SignError::Incomplete)?;
        let document = document(&request.body).ok_or(SignError::Incomplete)?;
        let mut value: Value = serde_json::from_slice(&document).map_err(|_not_json| SignError::Incomplete)?;
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let message = [text(TIME).into_bytes().into(), text(TYPE).into_bytes().into()];
        let signature = key.sign(&message).ok_or(SignError::Incomplete)?;
        let event = value.get_mut("event").ok_or(SignError::Incomplete)?;
        event["event_hash"] = Encoding::Hex.encode(&signature).into();
        request.body = format!("{FIELD}={}", form::encode(&value.to_string())).into();
        Ok(request)
    }
}

fn values(document: &[u8]) -> Result<[Cow<'_, str>; 3], Reason> {
    static WANTED: LazyLock<Wanted> = LazyLock::new(|| Wanted::of(&[HASH, TIME, TYPE]));
    let hits = WANTED.find(document).map_err(|json::Unreadable| Reason::MissingSignature)?;
    let read = |index| match WANTED.read(&hits, WANTED.at(index)) {
        Ok(text) if !text.is_empty() => Ok(text),
        Ok(_) | Err(NoText::Missing) => Err(Reason::MissingSignature),
        Err(_) => Err(Reason::MalformedSignature),
    };
    Ok([read(0)?, read(1)?, read(2)?])
}

/// The JSON inside the form; none when it is not there exactly once.
fn document(body: &[u8]) -> Option<Cow<'_, [u8]>> {
    if body.starts_with(b"--") {
        return multipart_field(body).map(Cow::Borrowed);
    }
    form::field(body, FIELD).ok().map(bytes)
}

/// The one part named `json`. The boundary is the body's own first line, since no signature covers the content type.
fn multipart_field(body: &[u8]) -> Option<&[u8]> {
    let line = find(body, b"\r\n")?;
    let boundary = &body[..line];
    let delimiter = [b"\r\n".as_slice(), boundary].concat();
    let mut rest = &body[line + 2..];
    let mut found = None;
    loop {
        let end = find(rest, &delimiter)?;
        let (part, after) = (&rest[..end], &rest[end + delimiter.len()..]);
        let split = find(part, b"\r\n\r\n")?;
        let head = std::str::from_utf8(&part[..split]).ok()?.to_ascii_lowercase();
        let is_ours = |line: &str| line.starts_with("content-disposition:") && line.contains("name=\"json\"");
        if head.split("\r\n").any(is_ours) && found.replace(&part[split + 4..]).is_some() {
            return None;
        }
        match after.strip_prefix(b"\r\n") {
            Some(next) => rest = next,
            None => return found.filter(|_| after.starts_with(b"--")),
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_there_exactly_once() {
        let part = |name: &str, text: &str| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
        };
        let check = |body: String, expected: Option<&str>| {
            assert_eq!(document(body.as_bytes()).as_deref(), expected.map(str::as_bytes), "{body}");
        };
        check(format!("{}{}--b--\r\n", part("a", "1"), part("json", "{}")), Some("{}"));
        check(format!("{}{}--b--", part("json", "{}"), part("json", "{}")), None);
        check(format!("{}--b--", part("other", "{}")), None);
        check(part("json", "{}"), None);
        check("--".to_owned(), None);
        check("json=%7B%7D".to_owned(), Some("{}"));
        check("json=1&json=2".to_owned(), None);
    }
}
