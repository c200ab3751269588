//! Batches: finds the events of a request that carries several.
//!
//! A pattern is a JSON Pointer in which `*` stands for every element of a list: `/entry/*/changes/*/value/messages/*`. A
//! list that ends a pattern need not say `/*`, and `""` is a document that is itself a list, or a single event.
//! Nothing may vanish: an element in which no pattern finds anything further is an event by itself. What is wanted of
//! an element is read while its end is looked for, so that the text is scanned once.

use super::json::{Hits, Pointer, Scanner, Unreadable, Wanted};

/// Most events in one batch; a longer one is held whole, for it would be one commit.
pub(crate) const BATCH_EVENTS_MAX: usize = 10_000;

/// Where a provider's events stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    root: Branch,
    /// One JSON document on each line.
    lines: bool,
    first: Vec<String>,
}

/// One event of a batch, as it stood.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    /// Its own bytes.
    pub(crate) text: &'a str,
    /// The element that encloses it, or the whole document.
    pub(crate) parent: &'a str,
    /// A pattern ends here; otherwise nobody knows what it is.
    pub(crate) known: bool,
    /// What was wanted of it, where that was met on the way.
    pub(crate) hits: Option<Hits<'a>>,
}

impl<'a> Element<'a> {
    fn whole(text: &'a str, known: bool) -> Self {
        Self { text, parent: text, known, hits: None }
    }
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

    /// The names of the first pattern, `*` included.
    pub(crate) fn first(&self) -> &[String] {
        &self.first
    }

    /// Splits a body; nothing when the batch is empty. `wanted` is what will be asked of each element.
    pub(crate) fn split<'a>(&self, body: &'a [u8], wanted: &Wanted) -> Result<Vec<Element<'a>>, Unreadable> {
        let mut found = Vec::new();
        // A name that stands twice must not turn one document into lines.
        if self.lines && whole(body).is_err() {
            for line in body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                found.push(Element::whole(whole(line)?, true));
            }
        } else {
            self.split_document(body, wanted, &mut found)?;
        }
        if found.len() > BATCH_EVENTS_MAX { Err(Unreadable) } else { Ok(found) }
    }

    fn split_document<'a>(
        &self,
        body: &'a [u8],
        wanted: &Wanted,
        found: &mut Vec<Element<'a>>,
    ) -> Result<(), Unreadable> {
        let mut scanner = Scanner::of_bytes(body)?;
        scanner.peek();
        let start = scanner.position();
        let has_list = self.root.descend(&mut scanner, wanted, found)?;
        let text = scanner.since(start);
        scanner.end()?;
        if found.is_empty() && !has_list {
            let known = self.root.each.is_some() && text.starts_with('{');
            found.push(Element::whole(text, known));
        }
        adopt(found, text);
        Ok(())
    }
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

    /// Follows the patterns below the next value; true when a list was found, empty or not.
    fn descend<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        wanted: &Wanted,
        found: &mut Vec<Element<'a>>,
    ) -> Result<bool, Unreadable> {
        match (scanner.peek(), &self.each) {
            (Some(b'['), Some(each)) => {
                scanner.take(b'[');
                let mut more = !scanner.take(b']');
                while more {
                    each.element(scanner, wanted, found)?;
                    more = scanner.another(b']')?;
                }
                Ok(true)
            }
            (Some(b'{'), _) if !self.names.is_empty() => self.members(scanner, wanted, found),
            _ => scanner.skip().map(|()| false),
        }
    }

    /// Elements come in the order of the patterns, wherever their lists stand.
    fn members<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        wanted: &Wanted,
        found: &mut Vec<Element<'a>>,
    ) -> Result<bool, Unreadable> {
        let mut has_list = false;
        let mut lists: Vec<Option<Vec<Element<'a>>>> = self.names.iter().map(|_| None).collect();
        scanner.take(b'{');
        let mut more = !scanner.take(b'}');
        while more {
            let name = scanner.name()?;
            match self.names.iter().position(|(known, _)| *known == name) {
                None => scanner.skip()?,
                Some(index) if lists[index].is_some() => return Err(Unreadable),
                Some(index) => {
                    let list = lists[index].insert(Vec::new());
                    has_list |= self.names[index].1.descend(scanner, wanted, list)?;
                }
            }
            more = scanner.another(b'}')?;
        }
        lists.into_iter().flatten().for_each(|list| found.extend(list));
        Ok(has_list)
    }

    fn element<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        wanted: &Wanted,
        found: &mut Vec<Element<'a>>,
    ) -> Result<(), Unreadable> {
        scanner.peek();
        let (start, before) = (scanner.position(), found.len());
        let is_last = self.each.is_none() && self.names.is_empty();
        let hits = if is_last && !wanted.is_empty() { Some(wanted.find_next(scanner)?) } else { None };
        if hits.is_none() {
            self.descend(scanner, wanted, found)?;
        }
        let text = scanner.since(start);
        if found.len() == before {
            found.push(Element { text, parent: NOT_YET, known: self.ends, hits });
        } else {
            adopt(&mut found[before..], text);
        }
        if found.len() > BATCH_EVENTS_MAX { Err(Unreadable) } else { Ok(()) }
    }
}

/// Where what encloses an element is not known before its end was read.
const NOT_YET: &str = "";

fn adopt<'a>(elements: &mut [Element<'a>], parent: &'a str) {
    elements.iter_mut().filter(|element| element.parent == NOT_YET).for_each(|element| element.parent = parent);
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
        let found = match batch.split(body.as_bytes(), &Wanted::default()) {
            Ok(elements) => elements.iter().map(shown).collect::<Vec<_>>().join(" "),
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
    }
}
