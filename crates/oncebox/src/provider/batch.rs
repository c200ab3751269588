//! Batches: finds the events of a request that carries several.
//!
//! A pattern is a JSON Pointer in which `*` stands for every element of a list: `/entry/*/changes/*/value/messages/*`. A
//! list that ends a pattern need not say `/*`, and `""` is a document that is itself a list, or a single event.
//! Nothing may vanish: an element in which no pattern finds anything further is an event by itself.

use super::json::{self, Hit, Pointer, Wanted};

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    /// Its own bytes.
    pub(crate) text: &'a str,
    /// The element that encloses it, or the whole document.
    pub(crate) parent: &'a str,
    /// A pattern ends here; otherwise nobody knows what it is.
    pub(crate) known: bool,
}

/// The body is not what the patterns describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

#[derive(Clone, Debug, Default)]
struct Branch {
    ends: bool,
    each: Option<Box<Branch>>,
    names: Vec<(Pointer, Branch)>,
    wanted: Wanted,
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
        batch.root.seal();
        (!patterns.is_empty()).then_some(batch)
    }

    /// The names of the first pattern, `*` included.
    pub(crate) fn first(&self) -> &[String] {
        &self.first
    }

    /// Splits a body; nothing when the batch is empty.
    pub(crate) fn split<'a>(&self, body: &'a [u8]) -> Result<Vec<Element<'a>>, Unreadable> {
        let mut found = Vec::new();
        match whole(body) {
            Some(text) => self.split_document(text, &mut found)?,
            None if self.lines => {
                for line in body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                    let text = whole(line).ok_or(Unreadable)?;
                    found.push(Element { text, parent: text, known: true });
                }
            }
            None => return Err(Unreadable),
        }
        if found.len() > BATCH_EVENTS_MAX { Err(Unreadable) } else { Ok(found) }
    }

    fn split_document<'a>(&self, text: &'a str, found: &mut Vec<Element<'a>>) -> Result<(), Unreadable> {
        let has_list = self.root.descend(text, text, found)?;
        if found.is_empty() && !has_list {
            let known = self.root.each.is_some() && text.starts_with('{');
            found.push(Element { text, parent: text, known });
        }
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
        let name = Pointer::of_name(first);
        let index = self.names.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.names.push((name, Self::default()));
            self.names.len() - 1
        });
        self.names.get_mut(index)?.1.add(rest)
    }

    fn seal(&mut self) {
        self.wanted = Wanted::new(self.names.iter().map(|(name, _)| name));
        self.each.iter_mut().for_each(|each| each.seal());
        self.names.iter_mut().for_each(|(_, branch)| branch.seal());
    }

    /// Follows the patterns below a value; true when a list was found, empty or not.
    fn descend<'a>(&self, text: &'a str, parent: &'a str, found: &mut Vec<Element<'a>>) -> Result<bool, Unreadable> {
        let mut has_list = false;
        if let Some(each) = &self.each
            && text.starts_with('[')
        {
            has_list = true;
            for element in json::elements(text, BATCH_EVENTS_MAX).ok_or(Unreadable)? {
                each.element(element, parent, found)?;
            }
        }
        if !self.names.is_empty() && text.starts_with('{') {
            let hits = self.wanted.find(text.as_bytes()).map_err(|_not_json| Unreadable)?;
            for (name, branch) in &self.names {
                match self.wanted.hit(&hits, name) {
                    Hit::Raw(inner) => has_list |= branch.descend(inner, parent, found)?,
                    Hit::Missing => {}
                    Hit::Ambiguous => return Err(Unreadable),
                }
            }
        }
        Ok(has_list)
    }

    fn element<'a>(&self, text: &'a str, parent: &'a str, found: &mut Vec<Element<'a>>) -> Result<(), Unreadable> {
        let before = found.len();
        self.descend(text, text, found)?;
        if found.len() == before {
            found.push(Element { text, parent, known: self.ends });
        }
        if found.len() > BATCH_EVENTS_MAX { Err(Unreadable) } else { Ok(()) }
    }
}

/// The one JSON value that a text is.
fn whole(text: &[u8]) -> Option<&str> {
    let root = Pointer::parse("")?;
    let wanted = Wanted::new([&root]);
    let hits = wanted.find(text).ok()?;
    match wanted.hit(&hits, &root) {
        Hit::Raw(text) => Some(text),
        Hit::Missing | Hit::Ambiguous => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], body: &str, expected: &str) {
        let batch = Batch::parse(patterns).unwrap();
        let shown = |element: &Element<'_>| format!("{}{}", if element.known { "" } else { "?" }, element.text);
        let found = match batch.split(body.as_bytes()) {
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
