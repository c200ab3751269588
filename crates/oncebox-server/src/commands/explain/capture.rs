//! One captured request: a line of JSON.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use data_encoding::BASE64;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncebox::gateway::clock::UnixMillis;
use oncebox_verify::Request;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

#[derive(Debug)]
pub(super) struct Capture {
    pub(super) request: Request,
    pub(super) at: UnixMillis,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    headers: Headers,
    #[serde(borrow)]
    body: Cow<'a, str>,
    at: f64,
}

impl Capture {
    /// Reads a line; the refusal says what is wrong and never quotes the line, which may hold a credential.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|error| describe(&error))?;
        let method = Method::from_bytes(line.method.as_bytes()).map_err(|_invalid| "method is no HTTP method")?;
        let body = BASE64.decode(line.body.as_bytes()).map_err(|_invalid| "body is not base64")?;
        if !line.at.is_finite() || line.at.abs() > 1e14 {
            return Err("at is not a time in Unix seconds".to_owned());
        }
        let at = (line.at * 1000.0).round() as UnixMillis;
        let request =
            Request { method, target: line.url.into_owned(), headers: line.headers.0, body: Bytes::from(body) };
        Ok(Self { request, at })
    }
}

fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    match error.classify() {
        serde_json::error::Category::Data if what.starts_with("missing field") || what.starts_with("headers") => {
            what.replace('`', "")
        }
        serde_json::error::Category::Data => {
            format!("a field has another type than expected, at column {}", error.column())
        }
        _ => format!("this is not JSON, at column {}", error.column()),
    }
}

/// Headers straight into a map, without a tree in between: a capture has millions of them.
#[derive(Debug)]
struct Headers(HeaderMap);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lines(HeaderMap);
        impl<'de> Visitor<'de> for Lines {
            type Value = Headers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of headers")
            }

            fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Headers, A::Error> {
                while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                    let name = HeaderName::from_bytes(name.as_bytes())
                        .map_err(|_invalid| de::Error::custom("headers: a name is no header name"))?;
                    for value in map.next_value::<Values<'de>>()?.0 {
                        let value = HeaderValue::from_bytes(value.as_bytes())
                            .map_err(|_invalid| de::Error::custom("headers: a value cannot stand in a header"))?;
                        let added = self.0.try_append(name.clone(), value);
                        added.map_err(|_full| de::Error::custom("headers: there are too many"))?;
                    }
                }
                Ok(Headers(self.0))
            }
        }
        deserializer.deserialize_map(Lines(HeaderMap::with_capacity(16)))
    }
}

/// A text, or a list of texts.
struct Values<'a>(Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Values<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Values<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Values(vec![Cow::Borrowed(text)]))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Values(vec![Cow::Owned(text.to_owned())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(text) = list.next_element::<Cow<'de, str>>()? {
                    values.push(text);
                }
                Ok(Values(values))
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_text_or_a_list() {
        let line = br#"{"method":"POST","url":"/in/a?b=1","headers":{"X-One":"1","x-two":["a","\u00e4"]},"body":"e30=","at":12.5,"more":[]}"#;
        let capture = Capture::read(line).expect("a capture");
        let request = &capture.request;
        assert_eq!((request.method.as_str(), request.target.as_str(), capture.at), ("POST", "/in/a?b=1", 12_500));
        assert_eq!(request.body, "{}");
        let values: Vec<&[u8]> = request.headers.get_all("x-two").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!((request.headers["x-one"].as_bytes(), values), (&b"1"[..], vec![&b"a"[..], "ä".as_bytes()]));
    }

    #[test]
    fn a_refusal_says_what_and_quotes_nothing() {
        let check = |line: &str, expected: &str| {
            let refusal = Capture::read(line.as_bytes()).expect_err(line);
            assert!(refusal.starts_with(expected), "{refusal:?} for {line}");
            assert!(!refusal.contains("hunter2"), "{refusal}");
        };
        let whole = |headers: &str, body: &str, at: &str| {
            format!(r#"{{"method":"POST","url":"/","headers":{headers},"body":{body},"at":{at}}}"#)
        };
        check("hunter2", "this is not JSON");
        check("{", "this is not JSON");
        check("{}", "missing field method");
        check(&whole("{}", "\"hunter2!\"", "1"), "body is not base64");
        check(&whole("{}", "7", "1"), "a field has another type");
        check(&whole("{}", "\"\"", "\"hunter2\""), "a field has another type");
        check(&whole("{}", "\"\"", "1e300"), "at is not a time");
        check(&whole("\"hunter2\"", "\"\"", "1"), "a field has another type");
        check(&whole("{\"hunter2 x\":\"\"}", "\"\"", "1"), "headers: a name");
        check(&whole("{\"x\":\"hunter2\\n\"}", "\"\"", "1"), "headers: a value");
        check(&whole("{\"x\":{\"hunter2\":1}}", "\"\"", "1"), "a field has another type");
    }
}
