//! Takes our own credentials out of what the other side says back, before anybody keeps or shows it.
//!
//! A target that answers an error with the request's headers in it would else write our token into the log, the
//! database and the dashboard.

use bytes::Bytes;
use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const MASK: &[u8] = b"***";
/// A shorter text is no secret, and blanking it out would leave nothing readable.
const SECRET_BYTES_MIN: usize = 4;

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Headers that hold credentials whoever set them.
const CREDENTIALS: [HeaderName; 4] =
    [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE, HeaderName::from_static("x-api-key")];

/// The texts that are taken out, the longest first.
#[derive(Clone, Default)]
pub struct Masks(Vec<Vec<u8>>);

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masks({})", self.0.len())
    }
}

impl Masks {
    /// What a call proves itself with: its sensitive headers, those that `configured` names, and those that hold
    /// credentials by their name.
    pub fn of_call(headers: &HeaderMap, configured: &HeaderMap) -> Self {
        let is_ours = |name: &HeaderName, value: &HeaderValue| {
            value.is_sensitive() || configured.contains_key(name) || CREDENTIALS.contains(name)
        };
        let ours = headers.iter().filter(|(name, value)| is_ours(name, value));
        Self::of(ours.map(|(_, value)| value.as_bytes()))
    }

    /// These values in every form in which they may come back.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for value in values {
            let bare = value.iter().position(|byte| *byte == b' ').map(|at| value[at + 1..].trim_ascii());
            let opened = bare.and_then(|bare| BASE64.decode(bare).ok());
            let password = opened.as_deref().and_then(|pair| pair.splitn(2, |byte| *byte == b':').nth(1));
            for text in [Some(value), bare, opened.as_deref(), password].into_iter().flatten() {
                texts.extend(forms(text));
            }
        }
        texts.retain(|text| text.len() >= SECRET_BYTES_MIN);
        texts.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        texts.dedup();
        Self(texts)
    }

    /// The text without them. One that was cut off in the middle of a credential loses the piece, too.
    pub fn apply(&self, text: Bytes) -> Bytes {
        let mut masked = text;
        for secret in &self.0 {
            if let Some(without) = replaced(&masked, secret) {
                masked = without.into();
            }
            let cut = (SECRET_BYTES_MIN..secret.len()).rev().find(|length| masked.ends_with(&secret[..*length]));
            if let Some(length) = cut {
                masked = [&masked[..masked.len() - length], MASK].concat().into();
            }
        }
        masked
    }
}

/// A text as it is, in base64, and escaped as JSON and URLs escape.
fn forms(text: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![
        text.to_vec(),
        BASE64.encode(text).into_bytes(),
        BASE64_NOPAD.encode(text).into_bytes(),
        BASE64URL_NOPAD.encode(text).into_bytes(),
    ];
    if let Ok(text) = std::str::from_utf8(text) {
        let json = serde_json::Value::from(text).to_string();
        forms.push(json.trim_matches('"').as_bytes().to_vec());
        forms.push(utf8_percent_encode(text, ESCAPED).to_string().into_bytes());
    }
    forms
}

/// The text with the mask in place of a secret; none where it is not there.
fn replaced(text: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let mut without = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(secret.len()).position(|piece| piece == secret) {
        without.extend_from_slice(&rest[..at]);
        without.extend_from_slice(MASK);
        rest = &rest[at + secret.len()..];
    }
    (rest.len() != text.len()).then(|| [&without, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, said: &str, expected: &str) {
        let masks = Masks::of([value.as_bytes()]);
        let masked = masks.apply(Bytes::copy_from_slice(said.as_bytes()));
        assert_eq!(String::from_utf8_lossy(&masked), expected, "{value} in {said}");
    }

    #[test]
    fn credentials_do_not_come_back_in_any_form() {
        check("Bearer s3cr3t-t0k3n", "got Bearer s3cr3t-t0k3n!", "got ***!");
        check("Bearer s3cr3t-t0k3n", "token s3cr3t-t0k3n and s3cr3t-t0k3n", "token *** and ***");
        check("Bearer s3cr3t-t0k3n", &format!("x{}x", BASE64.encode(b"s3cr3t-t0k3n")), "x***x");
        check("Basic dXNlcjpwYXNzd29yZA==", "user:password / password / dXNlcjpwYXNzd29yZA==", "*** / *** / ***");
        check("k\"e\\y-0123", r#"{"h":"k\"e\\y-0123"}"#, r#"{"h":"***"}"#);
        check("a b&c=0123", "q=a%20b%26c%3D0123", "q=***");
        check("s3cr3t-t0k3n", "cut off: s3cr3t-t0", "cut off: ***");
        check("s3cr3t-t0k3n", "nothing of it", "nothing of it");
        // Blanking these out would hide everything and nothing.
        check("1", "answered 1 of 11", "answered 1 of 11");
    }

    #[test]
    fn only_what_proves_who_we_are_is_masked() {
        let mut configured = HeaderMap::new();
        configured.insert("x-crm-key", HeaderValue::from_static("configured-1"));
        let mut headers = configured.clone();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer of-the-message"));
        headers.insert("x-trace", HeaderValue::from_static("plain-trace"));
        let masks = Masks::of_call(&headers, &configured);
        let said = Bytes::from_static(b"configured-1 of-the-message plain-trace");
        assert_eq!(&masks.apply(said)[..], b"*** *** plain-trace");
    }
}
