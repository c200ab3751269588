//! Batches: finds the events of a request that carries several.
//!
//! A pattern is a JSON Pointer in which `*` stands for every element of a list: `/entry/*/changes/*/value/messages/*`. A
//! list that ends a pattern need not say `/*`, and `""` is a document that is itself a list, or a single event.
//! Nothing may vanish: an element in which no pattern finds anything further is an event by itself. What is wanted of
//! an element or of what encloses it is read while its end is looked for, so that the text is scanned once.

use crate::provider::scheme::Wants;
use crate::read::json::{Gathering, Hits, Pointer, Scanner, Unreadable};

/// Most events in one batch; a longer one is held whole, for it would be one commit.
pub(crate) const BATCH_EVENTS_MAX: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    root: Branch,
    /// One JSON document on each line.
    lines: bool,
    /// The names of the first pattern, `*` included.
    pub(crate) first: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Split<'a> {
    pub(crate) elements: Vec<Element<'a>>,
    /// What was asked of the document and of elements that enclose events.
    pub(crate) around: Around<'a>,
}

/// What was asked of that which encloses events.
#[derive(Debug, Default)]
pub(crate) struct Around<'a> {
    /// Of the whole document; none where it is no single JSON text.
    pub(crate) document: Option<Hits<'a>>,
    /// Of the elements that enclose events.
    pub(crate) parents: Vec<Hits<'a>>,
}

/// One event of a batch, as it stood.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    pub(crate) text: &'a str,
    pub(crate) parent: Parent,
    /// A pattern ends here; otherwise nobody knows what it is.
    pub(crate) known: bool,
    /// What was asked of it, where that was met on the way.
    pub(crate) hits: Option<Hits<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The whole document, also where no more than that is known yet.
    Document,
    /// An element, by its place among the parents.
    Element(usize),
    /// The event itself, on a line of its own.
    Itself,
}

#[derive(Clone, Debug, Default)]
struct Branch {
    ends: bool,
    each: Option<Box<Branch>>,
    names: Vec<(String, Branch)>,
}

impl Batch {
    /// Reads patterns, or `lines` for JSON lines; none when one is no pattern.
    pub(crate) fn parse(patterns: &[&str]) -> Option<Self> {
        let mut batch = Self::default();
        for pattern in patterns {
            let text = if *pattern == "lines" { "" } else { pattern };
            batch.lines |= *pattern == "lines";
            let pointer = Pointer::parse(text)?;
            let mut names = pointer.names().to_vec();
            if names.last().is_none_or(|last| last != "*") {
                names.push("*".to_owned());
            }
            batch.root.add(&names)?;
            if batch.first.is_empty() {
                batch.first = names;
            }
        }
        (!patterns.is_empty()).then_some(batch)
    }

    /// Splits a body; no elements when the batch is empty.
    pub(crate) fn split<'a>(&self, body: &'a [u8], wants: &Wants) -> Result<Split<'a>, Unreadable> {
        // A name that stands twice must not turn one document into lines.
        let split = if self.lines && whole(body).is_err() { lines(body)? } else { self.split_document(body, wants)? };
        if split.elements.len() > BATCH_EVENTS_MAX { Err(Unreadable) } else { Ok(split) }
    }

    fn split_document<'a>(&self, body: &'a [u8], wants: &Wants) -> Result<Split<'a>, Unreadable> {
        let mut scanner = Scanner::of_bytes(body)?;
        scanner.peek();
        let start = scanner.position();
        let mut found = Found { elements: Vec::new(), parents: Vec::new(), wants };
        let mut document = Gathering::new(&wants.document);
        let has_list = self.root.descend(&mut scanner, Some(&mut document), &mut found)?;
        let text = scanner.since(start);
        scanner.end()?;
        let Found { mut elements, parents, .. } = found;
        if elements.is_empty() && !has_list {
            let known = self.root.each.is_some() && text.starts_with('{');
            elements.push(Element { text, parent: Parent::Document, known, hits: None });
        }
        Ok(Split { elements, around: Around { document: Some(document.close(text)?), parents } })
    }
}

struct Found<'a, 'w> {
    elements: Vec<Element<'a>>,
    parents: Vec<Hits<'a>>,
    wants: &'w Wants,
}

impl Branch {
    fn add(&mut self, names: &[String]) -> Option<()> {
        let Some((first, rest)) = names.split_first() else {
            self.ends = true;
            return Some(());
        };
        if first == "*" {
            return self.each.get_or_insert_default().add(rest);
        }
        let index = self.names.iter().position(|(known, _)| known == first).unwrap_or_else(|| {
            self.names.push((first.clone(), Self::default()));
            self.names.len() - 1
        });
        self.names.get_mut(index)?.1.add(rest)
    }

    /// Follows the patterns below the next value; true when a list was found, empty or not. `around` is what is asked
    /// of this very value.
    fn descend<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        around: Option<&mut Gathering<'a, '_>>,
        found: &mut Found<'a, '_>,
    ) -> Result<bool, Unreadable> {
        match (scanner.peek(), &self.each) {
            (Some(b'['), Some(each)) => {
                scanner.take(b'[');
                let mut more = !scanner.take(b']');
                while more {
                    each.element(scanner, found)?;
                    more = scanner.another(b']')?;
                }
                Ok(true)
            }
            (Some(b'{'), _) if !self.names.is_empty() => self.members(scanner, around, found),
            _ => match around {
                None => scanner.skip().map(|()| false),
                Some(around) => around.value(scanner).map(|()| false),
            },
        }
    }

    /// Elements come in the order of the patterns, wherever their lists stand.
    fn members<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        mut around: Option<&mut Gathering<'a, '_>>,
        found: &mut Found<'a, '_>,
    ) -> Result<bool, Unreadable> {
        let mut has_list = false;
        let mut met = Met::default();
        scanner.take(b'{');
        let mut more = !scanner.take(b'}');
        while more {
            let name = scanner.name()?;
            match (self.names.iter().position(|(known, _)| *known == name), around.as_deref_mut()) {
                (None, None) => scanner.skip()?,
                (None, Some(around)) => around.member(&name, scanner)?,
                (Some(index), around) => {
                    met.add(index, found.elements.len())?;
                    scanner.peek();
                    let start = scanner.position();
                    has_list |= self.names[index].1.descend(scanner, None, found)?;
                    around.map_or(Ok(()), |around| around.passed(&name, scanner.since(start)))?;
                }
            }
            more = scanner.another(b'}')?;
        }
        met.sort(&mut found.elements);
        Ok(has_list)
    }

    fn element<'a>(&self, scanner: &mut Scanner<'a>, found: &mut Found<'a, '_>) -> Result<(), Unreadable> {
        scanner.peek();
        let (start, before) = (scanner.position(), found.elements.len());
        if self.each.is_none() && self.names.is_empty() {
            let asked = &found.wants.json;
            let hits = if asked.is_empty() { scanner.skip().map(|()| None)? } else { Some(asked.find_next(scanner)?) };
            let text = scanner.since(start);
            found.elements.push(Element { text, parent: Parent::Document, known: self.ends, hits });
        } else {
            let mut around = Gathering::new(&found.wants.parent);
            self.descend(scanner, Some(&mut around), found)?;
            let text = scanner.since(start);
            if found.elements.len() == before {
                found.elements.push(Element { text, parent: Parent::Document, known: self.ends, hits: None });
            } else {
                let parent = Parent::Element(found.parents.len());
                found.parents.push(around.close(text)?);
                // Those of an element further inside have theirs already.
                let own = found.elements[before..].iter_mut().filter(|element| element.parent == Parent::Document);
                own.for_each(|element| element.parent = parent);
            }
        }
        if found.elements.len() > BATCH_EVENTS_MAX { Err(Unreadable) } else { Ok(()) }
    }
}

/// The lists that were met in an object: by their place among the patterns, each with where its elements start.
#[derive(Default)]
struct Met(Vec<(usize, usize)>);

impl Met {
    fn add(&mut self, index: usize, start: usize) -> Result<(), Unreadable> {
        if self.0.iter().any(|(known, _)| *known == index) {
            return Err(Unreadable);
        }
        self.0.push((index, start));
        Ok(())
    }

    fn sort(self, elements: &mut Vec<Element<'_>>) {
        if self.0.is_sorted() {
            return;
        }
        let mut lists: Vec<_> =
            self.0.into_iter().rev().map(|(index, start)| (index, elements.split_off(start))).collect();
        lists.sort_unstable_by_key(|(index, _)| *index);
        elements.extend(lists.into_iter().flat_map(|(_, list)| list));
    }
}

/// One event on each line that is not blank.
fn lines(body: &[u8]) -> Result<Split<'_>, Unreadable> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let event = |line| whole(line).map(|text| Element { text, parent: Parent::Itself, known: true, hits: None });
    Ok(Split { elements: lines.map(event).collect::<Result<_, _>>()?, around: Around::default() })
}

/// The one JSON value that a text is.
fn whole(text: &[u8]) -> Result<&str, Unreadable> {
    let mut scanner = Scanner::of_bytes(text)?;
    scanner.peek();
    let start = scanner.position();
    scanner.skip()?;
    let text = scanner.since(start);
    scanner.end().map(|()| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], body: &str, expected: &str) {
        let batch = Batch::parse(patterns).unwrap();
        let shown = |element: &Element<'_>| format!("{}{}", if element.known { "" } else { "?" }, element.text);
        let found = match batch.split(body.as_bytes(), &Wants::default()) {
            Ok(split) => split.elements.iter().map(shown).collect::<Vec<_>>().join(" "),
            Err(Unreadable) => "unreadable".to_owned(),
        };
        assert_eq!(found, expected, "{patterns:?} {body}");
    }

    #[test]
    fn lists_documents_and_lines() {
        check(&["/events"], r#"{"events":[1, {"a":2}]}"#, r#"1 {"a":2}"#);
        check(&["/events/*"], r#"{"events":[]}"#, "");
        check(&["/events"], "{}", "?{}");
        check(&["/events"], r#"{"events":{}}"#, r#"?{"events":{}}"#);
        check(&["/events"], r#"{"events":[1],"events":[2]}"#, "unreadable");
        check(&["/events"], "x", "unreadable");
        check(&[""], "[1,2]", "1 2");
        check(&[""], r#"{"a":1}"#, r#"{"a":1}"#);
        check(&[""], "[]", "");
        check(&["lines"], "{\"a\":1}\n\n{\"a\":2}\r\n", r#"{"a":1} {"a":2}"#);
        check(&["lines", "/logs"], r#"{"logs":[1]}"#, "1");
        check(&["lines"], "{\"a\":1}\n{", "unreadable");
    }

    #[test]
    fn nested_lists_lose_nothing() {
        let patterns = ["/e/*/c/*/m", "/e/*/c/*/s", "/e/*/c", "/e/*/g"];
        check(&patterns, r#"{"e":[{"c":[{"m":[1,2],"s":[3]}]},{"g":[4]}]}"#, "1 2 3 4");
        check(&patterns, r#"{"e":[{"c":[{"f":5}]},{"x":6}]}"#, r#"{"f":5} ?{"x":6}"#);
        check(&patterns, r#"{"e":[{"c":[{"m":[]}]}]}"#, r#"{"m":[]}"#);
        check(&patterns, r#"{"e":[]}"#, "");
        check(&patterns, r#"{"e":[{"g":[4],"c":[{"s":[3],"m":[1,2]}]},{"c":[{"m":[5]}]}]}"#, "1 2 3 4 5");
    }
}
