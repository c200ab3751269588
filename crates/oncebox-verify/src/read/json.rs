//! Reads single values out of a JSON text without building a tree.
//!
//! The text is scanned once. Only the wanted paths are followed, so recursion is as deep as the longest pointer;
//! everything else is skipped by the scanner, which does not recurse, so depth and size cost nothing but time. A name that stands twice on the way to a value makes the value ambiguous: two readers of
//! the same bytes could take different ones. Values come back as the bytes that stood in the text.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub(crate) use gather::Gathering;
pub(crate) use scan::Scanner;

use super::{NoText, Reading};

mod gather;
mod scan;

/// Longest pointer, in names: deeper ones would make one text be scanned too often.
const POINTER_NAMES_MAX: usize = 16;

/// A JSON Pointer (RFC 6901), split into its names; copies share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Arc<[String]>);

impl Pointer {
    /// Reads `""` (the whole text) or `/a/b`, with `~1` for a slash and `~0` for a tilde.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Arc::default()));
        }
        let names = text.strip_prefix('/')?.split('/').map(|name| name.replace("~1", "/").replace("~0", "~"));
        let names: Vec<String> = names.collect();
        (names.len() <= POINTER_NAMES_MAX).then(|| Self(names.into()))
    }

    /// Writes a value at the pointer, making the objects on the way.
    pub(crate) fn put(&self, body: &mut serde_json::Value, value: serde_json::Value) {
        let mut at = body;
        for name in self.names() {
            if !at.is_object() {
                *at = serde_json::json!({});
            }
            at = &mut at[name.as_str()];
        }
        *at = value;
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}

#[derive(Clone, Copy, Debug)]
enum Hit<'a> {
    Missing,
    /// A name on the way stands more than once.
    Ambiguous,
    Raw(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// The pointers one reader wants, merged so that the text is scanned once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    root: Node,
    pointers: Vec<(Pointer, usize)>,
    nodes_count: usize,
}

/// A name on the way to something wanted, or the wanted value itself.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Where its hit is kept.
    slot: usize,
    children: Vec<(String, Node)>,
}

impl Wanted {
    /// Merges pointers; the same one twice is one.
    pub(crate) fn new<'p>(pointers: impl IntoIterator<Item = &'p Pointer>) -> Self {
        let mut wanted = Self { nodes_count: 1, ..Self::default() };
        for pointer in pointers {
            if !wanted.pointers.iter().any(|(known, _)| known == pointer) {
                let mut node = &mut wanted.root;
                for name in pointer.names() {
                    node = node.child(name, &mut wanted.nodes_count);
                }
                wanted.pointers.push((pointer.clone(), node.slot));
            }
        }
        wanted
    }

    /// The same from pointers as people write them.
    pub(crate) fn of(pointers: &[&str]) -> Self {
        Self::new(&pointers.iter().filter_map(|text| Pointer::parse(text)).collect::<Vec<_>>())
    }

    pub(crate) fn at(&self, index: usize) -> &Pointer {
        &self.pointers[index].0
    }

    /// True when nothing is wanted, so that the text need not be read at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }

    pub(crate) fn pointers(&self) -> impl Iterator<Item = &Pointer> {
        self.pointers.iter().map(|(pointer, _)| pointer)
    }

    /// Scans the text once and returns what stands at each pointer.
    pub(crate) fn find<'a>(&self, text: &'a [u8]) -> Result<Hits<'a>, Unreadable> {
        let text = std::str::from_utf8(text).map_err(|_not_utf8| Unreadable)?;
        let mut scanner = Scanner::new(text);
        let hits = self.find_next(&mut scanner)?;
        scanner.end().map(|()| hits)
    }

    /// The same for the next value of a text, which the scanner goes over.
    pub(crate) fn find_next<'a>(&self, scanner: &mut Scanner<'a>) -> Result<Hits<'a>, Unreadable> {
        let mut hits = self.no_hits();
        self.root.walk(scanner, &mut hits.0)?;
        Ok(hits)
    }

    /// What was found at a pointer that is one of the wanted.
    fn hit<'a>(&self, hits: &Hits<'a>, pointer: &Pointer) -> Hit<'a> {
        // Whoever asks nearly always has a copy of the very pointer, which is found without reading its names.
        let copy = self.pointers.iter().find(|(wanted, _)| Arc::ptr_eq(&wanted.0, &pointer.0));
        let found = copy.or_else(|| self.pointers.iter().find(|(wanted, _)| wanted == pointer));
        let slot = found.map(|(_, slot)| *slot);
        slot.and_then(|slot| hits.0.get(slot)).copied().unwrap_or(Hit::Missing)
    }

    /// What was found there, as text.
    pub(crate) fn read<'a>(&self, hits: &Hits<'a>, pointer: &Pointer) -> Reading<'a> {
        match self.hit(hits, pointer) {
            Hit::Missing => Err(NoText::Missing),
            Hit::Ambiguous => Err(NoText::Ambiguous),
            Hit::Raw(raw) => text(raw),
        }
    }

    /// What was found there, as it stood.
    pub(crate) fn raw<'a>(&self, hits: &Hits<'a>, pointer: &Pointer) -> Option<&'a str> {
        if let Hit::Raw(raw) = self.hit(hits, pointer) { Some(raw) } else { None }
    }

    fn no_hits<'a>(&self) -> Hits<'a> {
        Hits(vec![Hit::Missing; self.nodes_count])
    }
}

/// What a scan found at each name on the way.
#[derive(Debug)]
pub(crate) struct Hits<'a>(Vec<Hit<'a>>);

/// Reads a value that a scan found as text: a string, or a whole number by its literal digits. A fraction, an exponent, a
/// truth value, an object, a list, or a string that no text can hold is none.
pub(crate) fn text(raw: &str) -> Reading<'_> {
    match raw.as_bytes().first() {
        Some(b'"') if raw.contains('\\') => {
            serde_json::from_str::<Text<'_>>(raw).map(|text| text.0).map_err(|_no_text| NoText::Unusable)
        }
        Some(b'"') => raw.get(1..raw.len() - 1).map(Cow::Borrowed).ok_or(NoText::Unusable),
        Some(b'-' | b'0'..=b'9') if raw.bytes().skip(1).all(|byte| byte.is_ascii_digit()) && raw != "-" => {
            Ok(Cow::Borrowed(raw))
        }
        Some(b'n') => Err(NoText::Missing),
        _ => Err(NoText::Unusable),
    }
}

/// Splits a list into its elements' own bytes; none when it is no list or holds more than `max`.
pub(crate) fn elements(raw: &str, max: usize) -> Option<Vec<&str>> {
    let mut scanner = Scanner::new(raw);
    let mut elements = Vec::new();
    if !scanner.take(b'[') {
        return None;
    }
    let mut more = !scanner.take(b']');
    while more {
        scanner.peek();
        let start = scanner.position();
        scanner.skip().ok()?;
        elements.push(scanner.since(start));
        if elements.len() > max {
            return None;
        }
        more = scanner.another(b']').ok()?;
    }
    scanner.end().ok()?;
    Some(elements)
}

/// The first name of an object that is not one of `skipped`.
pub(crate) fn first_name<'a>(text: &'a [u8], skipped: &[String]) -> Option<Cow<'a, str>> {
    let mut scanner = Scanner::new(std::str::from_utf8(text).ok()?);
    let mut found = None;
    if !scanner.take(b'{') {
        return None;
    }
    let mut more = !scanner.take(b'}');
    while more {
        let name = scanner.name().ok()?;
        if found.is_none() && skipped.iter().all(|skipped| *skipped != name) {
            found = Some(name);
        }
        scanner.skip().ok()?;
        more = scanner.another(b'}').ok()?;
    }
    scanner.end().ok()?;
    found
}

impl Node {
    fn child(&mut self, name: &str, nodes_count: &mut usize) -> &mut Self {
        let index = self.children.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.children.push((name.to_owned(), Self { slot: *nodes_count, children: Vec::new() }));
            *nodes_count += 1;
            self.children.len() - 1
        });
        &mut self.children[index].1
    }

    /// Goes over one value and keeps what is wanted of it.
    fn walk<'a>(&self, scanner: &mut Scanner<'a>, hits: &mut [Hit<'a>]) -> Result<(), Unreadable> {
        let first = scanner.peek();
        let start = scanner.position();
        match first {
            Some(b'{') if !self.children.is_empty() => self.walk_object(scanner, hits)?,
            Some(b'[') if !self.children.is_empty() => self.walk_list(scanner, hits)?,
            _ => scanner.skip()?,
        }
        hits[self.slot] = Hit::Raw(scanner.since(start));
        Ok(())
    }

    fn walk_object<'a>(&self, scanner: &mut Scanner<'a>, hits: &mut [Hit<'a>]) -> Result<(), Unreadable> {
        scanner.take(b'{');
        let mut more = !scanner.take(b'}');
        while more {
            let name = scanner.name()?;
            match self.named(&name) {
                None => scanner.skip()?,
                Some(child) => child.meet(scanner, hits)?,
            }
            more = scanner.another(b'}')?;
        }
        Ok(())
    }

    fn named(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|(known, _)| known == name).map(|(_, child)| child)
    }

    /// Goes over the value of a member of this name, which may be the second one.
    fn meet<'a>(&self, scanner: &mut Scanner<'a>, hits: &mut [Hit<'a>]) -> Result<(), Unreadable> {
        if matches!(hits[self.slot], Hit::Missing) {
            return self.walk(scanner, hits);
        }
        scanner.skip()?;
        self.mark_ambiguous(hits);
        Ok(())
    }

    fn walk_list<'a>(&self, scanner: &mut Scanner<'a>, hits: &mut [Hit<'a>]) -> Result<(), Unreadable> {
        scanner.take(b'[');
        let mut more = !scanner.take(b']');
        let mut position: usize = 0;
        while more {
            match self.children.iter().find(|(name, _)| name.parse() == Ok(position)) {
                None => scanner.skip()?,
                Some((_, child)) => child.walk(scanner, hits)?,
            }
            position += 1;
            more = scanner.another(b']')?;
        }
        Ok(())
    }

    fn mark_ambiguous(&self, hits: &mut [Hit<'_>]) {
        hits[self.slot] = Hit::Ambiguous;
        self.children.iter().for_each(|(_, child)| child.mark_ambiguous(hits));
    }
}

/// A string that borrows where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

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
        let of = |text: &'static str| Ok(Cow::Borrowed(text));
        for (raw, expected) in [
            (r#""a""#, of("a")),
            (r#""\u0041""#, of("A")),
            ("12", of("12")),
            ("-12", of("-12")),
            ("1.0", Err(NoText::Unusable)),
            ("1e5", Err(NoText::Unusable)),
            ("true", Err(NoText::Unusable)),
            ("null", Err(NoText::Missing)),
            ("{}", Err(NoText::Unusable)),
            ("[]", Err(NoText::Unusable)),
            (r#""\ud800""#, Err(NoText::Unusable)),
        ] {
            assert_eq!(text(raw), expected, "{raw}");
        }
    }
}
