//! Keeps the wanted values of a text that somebody else goes over, so that it is not scanned twice.
//!
//! A batch is cut into its elements by one reader, while what stands around them is wanted by another. The first tells
//! this one of every member it meets. Only a member that both follow is looked at again, and a list of which a position
//! is wanted.

use super::{Hit, Hits, Scanner, Unreadable, Wanted};

#[derive(Debug)]
pub(crate) struct Gathering<'a, 'w> {
    wanted: &'w Wanted,
    hits: Hits<'a>,
}

impl<'a, 'w> Gathering<'a, 'w> {
    pub(crate) fn new(wanted: &'w Wanted) -> Self {
        let hits = if wanted.is_empty() { Hits(Vec::new()) } else { wanted.no_hits() };
        Self { wanted, hits }
    }

    /// Goes over the whole value, which the other reader has no use for.
    pub(crate) fn value(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Unreadable> {
        if self.wanted.is_empty() { scanner.skip() } else { self.wanted.root.walk(scanner, &mut self.hits.0) }
    }

    /// Goes over the value of a member that the other reader has no use for.
    pub(crate) fn member(&mut self, name: &str, scanner: &mut Scanner<'a>) -> Result<(), Unreadable> {
        match self.wanted.root.named(name) {
            None => scanner.skip(),
            Some(child) => child.meet(scanner, &mut self.hits.0),
        }
    }

    /// Looks again at the value of a member that the other reader went over.
    pub(crate) fn passed(&mut self, name: &str, text: &'a str) -> Result<(), Unreadable> {
        match self.wanted.root.named(name) {
            None => Ok(()),
            Some(child) => child.meet(&mut Scanner::new(text), &mut self.hits.0),
        }
    }

    /// What was found, when the value's own text is known.
    pub(crate) fn close(mut self, text: &'a str) -> Result<Hits<'a>, Unreadable> {
        let root = &self.wanted.root;
        if text.starts_with('[') && root.children.iter().any(|(name, _)| name.parse::<usize>().is_ok()) {
            return self.wanted.find_next(&mut Scanner::new(text));
        }
        if let Some(whole) = self.hits.0.get_mut(root.slot) {
            *whole = Hit::Raw(text);
        }
        Ok(self.hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::json::Pointer;

    /// The same is found as by a scan of one's own, whichever members the other reader follows.
    fn check(text: &str, pointer: &str, followed: &[&str]) {
        let pointer = Pointer::parse(pointer).unwrap();
        let wanted = Wanted::new([&pointer]);
        let mut gathering = Gathering::new(&wanted);
        let mut scanner = Scanner::new(text);
        if scanner.take(b'{') {
            let mut more = !scanner.take(b'}');
            while more {
                let name = scanner.name().unwrap();
                scanner.peek();
                let start = scanner.position();
                if followed.contains(&name.as_ref()) {
                    scanner.skip().unwrap();
                    gathering.passed(&name, scanner.since(start)).unwrap();
                } else {
                    gathering.member(&name, &mut scanner).unwrap();
                }
                more = scanner.another(b'}').unwrap();
            }
        } else if !text.starts_with('[') {
            gathering.value(&mut scanner).unwrap();
        }
        let shown = |hits: &Hits<'_>| format!("{:?}", wanted.hit(hits, &pointer));
        let alone = wanted.find(text.as_bytes()).unwrap();
        assert_eq!(
            shown(&gathering.close(text).unwrap()),
            shown(&alone),
            "{pointer} in {text}, following {followed:?}"
        );
    }

    #[test]
    fn finds_what_a_scan_of_its_own_finds() {
        for text in [
            r#"{"a":{"b":1},"c":[2,{"b":3}]}"#,
            r#"{"a":1,"a":2,"c":[]}"#,
            r#"{ "a" : { "b" : 1 , "b" : 2 } }"#,
            r#"{"\u0061":{"b":null}}"#,
            r#"[{"b":1},{"b":2}]"#,
            "[]",
            "{}",
            "7",
        ] {
            for pointer in ["", "/a", "/a/b", "/c", "/c/1/b", "/0", "/1/b", "/b"] {
                for followed in [&[][..], &["a"], &["c"], &["a", "c"]] {
                    check(text, pointer, followed);
                }
            }
        }
    }
}
