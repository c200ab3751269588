//! Reads single values out of a JSON text without building a tree.
//!
//! Only the wanted paths are followed; everything else is skipped by the scanner, which does not recurse, so depth and
//! size cost nothing but time. A name that stands twice on the way to a value makes the value ambiguous: two readers of
//! the same bytes could take different ones. Values come back as the bytes that stood in the text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Longest pointer, in names: deeper ones would make one text be scanned too often.
const POINTER_NAMES_MAX: usize = 16;

/// A JSON Pointer (RFC 6901), split into its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    /// Reads `""` (the whole text) or `/a/b`, with `~1` for a slash and `~0` for a tilde.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let names = text.strip_prefix('/')?.split('/').map(|name| name.replace("~1", "/").replace("~0", "~"));
        let names: Vec<String> = names.collect();
        (names.len() <= POINTER_NAMES_MAX).then_some(Self(names))
    }

    /// The pointer to a name at the top.
    pub(crate) fn of_name(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// The names from the outside in.
    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}

/// What stands at a pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hit<'a> {
    /// Nothing.
    Missing,
    /// A name on the way stands more than once.
    Ambiguous,
    /// This text.
    Raw(&'a str),
}

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// A value that may serve as text: a string, or a whole number by its literal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scalar<'a> {
    /// Usable as text.
    Text(Cow<'a, str>),
    /// `null`, which senders use for "not there".
    Null,
    /// A fraction, an exponent, a truth value, an object, a list, or a string that no text can hold.
    Other,
}

/// The pointers one reader wants, merged so that the text is scanned once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    root: Node,
    pointers: Vec<Pointer>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    leaf: Option<usize>,
    children: Vec<(String, Node)>,
}

impl Wanted {
    /// Merges pointers; the same one twice is one.
    pub(crate) fn new<'p>(pointers: impl IntoIterator<Item = &'p Pointer>) -> Self {
        let mut wanted = Self::default();
        for pointer in pointers {
            if !wanted.pointers.contains(pointer) {
                let mut node = &mut wanted.root;
                for name in pointer.names() {
                    node = node.child(name);
                }
                node.leaf = Some(wanted.pointers.len());
                wanted.pointers.push(pointer.clone());
            }
        }
        wanted
    }

    /// True when nothing is wanted, so that the text need not be read at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }

    /// Scans the text once and returns what stands at each pointer.
    pub(crate) fn find<'a>(&self, text: &'a [u8]) -> Result<Hits<'a>, Unreadable> {
        let text = std::str::from_utf8(text).map_err(|_not_utf8| Unreadable)?;
        let mut hits = vec![Hit::Missing; self.pointers.len()];
        self.root.walk(text.trim_matches([' ', '\t', '\r', '\n']), &mut hits)?;
        Ok(Hits(hits))
    }

    /// What was found at a pointer that is one of the wanted.
    pub(crate) fn hit<'a>(&self, hits: &Hits<'a>, pointer: &Pointer) -> Hit<'a> {
        let index = self.pointers.iter().position(|wanted| wanted == pointer);
        index.and_then(|index| hits.0.get(index)).copied().unwrap_or(Hit::Missing)
    }
}

/// What a scan found, in the order of the wanted pointers.
#[derive(Debug)]
pub(crate) struct Hits<'a>(Vec<Hit<'a>>);

/// Reads a value as text.
pub(crate) fn scalar(raw: &str) -> Scalar<'_> {
    match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<Text<'_>>(raw).map_or(Scalar::Other, |text| Scalar::Text(text.0)),
        Some(b'-' | b'0'..=b'9') if raw.bytes().skip(1).all(|byte| byte.is_ascii_digit()) && raw != "-" => {
            Scalar::Text(Cow::Borrowed(raw))
        }
        Some(b'n') => Scalar::Null,
        _ => Scalar::Other,
    }
}

/// Splits a list into its elements' own bytes; none when it is no list or holds more than `max`.
pub(crate) fn elements(raw: &str, max: usize) -> Option<Vec<&str>> {
    let mut scanner = serde_json::Deserializer::from_str(raw);
    let elements = scanner.deserialize_seq(Elements { max }).ok()?;
    scanner.end().ok()?;
    elements
}

/// The first name of an object that is not one of `skipped`.
pub(crate) fn first_name<'a>(text: &'a [u8], skipped: &[String]) -> Option<Cow<'a, str>> {
    let mut scanner = serde_json::Deserializer::from_slice(text);
    let name = scanner.deserialize_map(FirstName { skipped }).ok()?;
    scanner.end().ok()?;
    name
}

impl Node {
    fn child(&mut self, name: &str) -> &mut Self {
        let index = self.children.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.children.push((name.to_owned(), Self::default()));
            self.children.len() - 1
        });
        &mut self.children[index].1
    }

    /// `text` is one value. Each level is scanned on its own, so that recursion follows the pointers and not the text.
    fn walk<'a>(&self, text: &'a str, hits: &mut [Hit<'a>]) -> Result<(), Unreadable> {
        let mut scanner = serde_json::Deserializer::from_str(text);
        let mut seen = vec![Seen::Never; self.children.len()];
        let level = Level { node: self, seen: &mut seen };
        let read = match text.as_bytes().first() {
            Some(b'{') if !self.children.is_empty() => scanner.deserialize_map(level),
            Some(b'[') if !self.children.is_empty() => scanner.deserialize_seq(level),
            _ => serde::Deserialize::deserialize(&mut scanner).map(|IgnoredAny| ()),
        };
        read.and_then(|()| scanner.end()).map_err(|_not_json| Unreadable)?;
        if let Some(leaf) = self.leaf {
            hits[leaf] = Hit::Raw(text);
        }
        for ((_, child), seen) in self.children.iter().zip(seen) {
            match seen {
                Seen::Never => {}
                Seen::Once(text) if child.children.is_empty() => child.mark(Hit::Raw(text), hits),
                Seen::Once(text) => child.walk(text, hits)?,
                Seen::Often => child.mark(Hit::Ambiguous, hits),
            }
        }
        Ok(())
    }

    fn mark<'a>(&self, hit: Hit<'a>, hits: &mut [Hit<'a>]) {
        if let Some(leaf) = self.leaf {
            hits[leaf] = hit;
        }
        for (_, child) in &self.children {
            child.mark(hit, hits);
        }
    }
}

#[derive(Clone, Copy)]
enum Seen<'a> {
    Never,
    Once(&'a str),
    Often,
}

/// One object or list, with what was seen of the wanted names in it.
struct Level<'n, 's, 'a> {
    node: &'n Node,
    seen: &'s mut [Seen<'a>],
}

impl<'a> Visitor<'a> for Level<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(child) = map.next_key_seed(Name(self.node))? {
            match child {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(index) => {
                    let value = map.next_value::<&'a RawValue>()?.get();
                    self.seen[index] =
                        if matches!(self.seen[index], Seen::Never) { Seen::Once(value) } else { Seen::Often };
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        for position in 0_usize.. {
            let wanted = self.node.children.iter().position(|(name, _)| name.parse() == Ok(position));
            match wanted {
                None if seq.next_element::<IgnoredAny>()?.is_none() => break,
                None => {}
                Some(index) => match seq.next_element::<&'a RawValue>()? {
                    None => break,
                    Some(value) => self.seen[index] = Seen::Once(value.get()),
                },
            }
        }
        Ok(())
    }
}

/// Reads a name and says which child it is, without keeping the name.
struct Name<'n>(&'n Node);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.children.iter().position(|(known, _)| known == name))
    }
}

struct FirstName<'s> {
    skipped: &'s [String],
}

impl<'a> Visitor<'a> for FirstName<'_> {
    type Value = Option<Cow<'a, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Text(name)) = map.next_key::<Text<'a>>()? {
            map.next_value::<IgnoredAny>()?;
            if found.is_none() && self.skipped.iter().all(|skipped| *skipped != name) {
                found = Some(name);
            }
        }
        Ok(found)
    }
}

/// A string that borrows where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Elements {
    max: usize,
}

impl<'a> Visitor<'a> for Elements {
    type Value = Option<Vec<&'a str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element::<&'a RawValue>()? {
            elements.push(element.get());
            if elements.len() > self.max {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
        }
        Ok(Some(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pointer: &str, expected: &str) {
        let pointer = Pointer::parse(pointer).unwrap();
        let wanted = Wanted::new([&pointer]);
        let found = match wanted.find(text.as_bytes()) {
            Err(Unreadable) => "unreadable".to_owned(),
            Ok(hits) => match wanted.hit(&hits, &pointer) {
                Hit::Missing => "missing".to_owned(),
                Hit::Ambiguous => "ambiguous".to_owned(),
                Hit::Raw(raw) => raw.to_owned(),
            },
        };
        assert_eq!(found, expected, "{pointer:?} in {}", &text[..text.len().min(80)]);
    }

    #[test]
    fn finds_what_stands_at_a_pointer() {
        check(r#"{"id":"a"}"#, "/id", r#""a""#);
        check(r#" {"x":[1,{"id":2}],"id": 3 } "#, "/x/1/id", "2");
        check(r#"{"a/b":{"~":1}}"#, "/a~1b/~0", "1");
        check(r#"{"id":"a"}"#, "/other", "missing");
        check(r#"{"id":"a"}"#, "/id/deeper", "missing");
        check(r#"{"a":1e400}"#, "/a/b", "missing");
        check(r#"{"\u0069d":"a"}"#, "/id", r#""a""#);
        check("[1,2]", "", "[1,2]");
    }

    #[test]
    fn a_name_that_stands_twice_on_the_way_is_ambiguous() {
        check(r#"{"id":"a","id":"a"}"#, "/id", "ambiguous");
        check(r#"{"id":"a","\u0069d":"b"}"#, "/id", "ambiguous");
        check(r#"{"a":{"id":1},"a":{}}"#, "/a/id", "ambiguous");
        check(r#"{"id":"a","x":1,"x":2}"#, "/id", r#""a""#);
    }

    #[test]
    fn what_is_not_json_is_unreadable() {
        for text in ["", " ", "{", "hello", r#"{"id":1}x"#, "\u{feff}{}", r#"{"id":1,}"#, "{'id':1}", "[[["] {
            check(text, "/id", "unreadable");
        }
    }

    #[test]
    fn depth_and_size_do_no_harm() {
        let deep = format!(r#"{{"x":{}{},"id":7}}"#, "[".repeat(100_000), "]".repeat(100_000));
        check(&deep, "/id", "7");
        check(&"[".repeat(1_000_000), "/id", "unreadable");
        let wide: String = (0..100_000).map(|n| format!(r#""k{n}":1e200000,"#)).collect();
        check(&format!(r#"{{{wide}"id":7}}"#), "/id", "7");
    }

    #[test]
    fn scalars() {
        let text = |text: &'static str| Scalar::Text(Cow::Borrowed(text));
        for (raw, expected) in [
            (r#""a""#, text("a")),
            (r#""\u0041""#, text("A")),
            ("12", text("12")),
            ("-12", text("-12")),
            ("1.0", Scalar::Other),
            ("1e5", Scalar::Other),
            ("true", Scalar::Other),
            ("null", Scalar::Null),
            ("{}", Scalar::Other),
            ("[]", Scalar::Other),
            (r#""\ud800""#, Scalar::Other),
        ] {
            assert_eq!(scalar(raw), expected, "{raw}");
        }
    }
}
