//! A JWT in its three parts, read strictly: unpadded base64url, one JSON object each, no name twice.
//!
//! Nothing in a token decides how it is checked. Its header may name the key; `alg` must say what the description says.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::UnixMillis;

/// Longest token: an ES256 or RS256 token of a vendor is around 1 kB.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// A token that is not yet verified.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) signed: &'a str,
    pub(crate) signature: Vec<u8>,
    pub(crate) header: Claims,
    pub(crate) claims: Claims,
}

/// The members of a JSON object, each name once.
#[derive(Debug)]
pub(crate) struct Claims(BTreeMap<String, Value>);

impl<'a> Token<'a> {
    /// Reads a token; none unless it has exactly the compact form.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).ok();
        Some(Self {
            signed,
            signature: decode(signature)?,
            header: Claims::parse(&decode(header)?)?,
            claims: Claims::parse(&decode(claims)?)?,
        })
    }
}

impl Claims {
    /// Reads an object; none when a name stands twice.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let claims = reader.deserialize_map(Members).ok()?;
        reader.end().ok()?;
        Some(Self(claims))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A truth value, also as a word, as Google once wrote it.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("true"))
    }

    /// True when a text, or one text of a list, is this.
    pub(crate) fn holds(&self, name: &str, wanted: &str) -> bool {
        match self.0.get(name) {
            Some(Value::String(text)) => text == wanted,
            Some(Value::Array(list)) => list.iter().any(|item| item.as_str() == Some(wanted)),
            _ => false,
        }
    }

    /// A time; an error when it is there and is no sensible number of seconds.
    pub(crate) fn time(&self, name: &str) -> Result<Option<UnixMillis>, ()> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| (0.0..1e11).contains(seconds)).ok_or(())?;
        #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
        let millis = (seconds * 1000.0) as UnixMillis;
        Ok(Some(millis))
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = BTreeMap<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<Cow<'de, str>, Value>()? {
            if members.insert(name.into_owned(), value).is_some() {
                return Err(de::Error::custom("a name stands twice"));
            }
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, claims: &str, tail: &str, good: bool) {
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let token = format!("{}.{}.{tail}", part(header), part(claims));
        assert_eq!(Token::parse(&token).is_some(), good, "{header} {claims} {tail}");
    }

    #[test]
    fn only_the_exact_form() {
        check("{}", "{}", "AAAA", true);
        check("{}", "{}", "", true);
        check("{}", "{}", "AA.AA", false);
        check("{}", "{}", "AA==", false);
        check("{}", "{}", "A+/A", false);
        check("{}", "[]", "AAAA", false);
        check("{}", "{}x", "AAAA", false);
        check("{}", r#"{"a":1,"a":1}"#, "AAAA", false);
        check(r#"{"alg":"x","\u0061lg":"y"}"#, "{}", "AAAA", false);
        check("{}", &format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500)), "AAAA", false);
        for text in ["", ".", "..", "a.b", "a.b.c", &"a".repeat(TOKEN_BYTES_MAX + 1)] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn times() {
        let claims = Claims::parse(br#"{"a":1731700000,"b":1731700000.5,"c":-1,"d":"1","e":1e300}"#).expect("claims");
        assert_eq!(claims.time("a"), Ok(Some(1_731_700_000_000)));
        assert_eq!(claims.time("b"), Ok(Some(1_731_700_000_500)));
        assert_eq!(claims.time("none"), Ok(None));
        for name in ["c", "d", "e"] {
            assert_eq!(claims.time(name), Err(()), "{name}");
        }
    }
}
