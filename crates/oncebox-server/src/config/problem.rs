//! What is wrong with a config file: all of it at once, one line each, with its place and its cure.
//!
//! A problem never quotes the value of a secret, nor a line of the file, because a secret may stand in it.

use std::cell::RefCell;
use std::fmt;

/// Line and column, both from 1.
pub(crate) type Place = (usize, usize);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Where; none where the file as a whole is meant.
    pub(crate) place: Option<Place>,
    /// The key it is about, such as `source.stripe.secrets[0]`.
    pub(crate) path: String,
    pub(crate) what: String,
    pub(crate) cure: String,
}

/// Everything that is wrong with one file, in the order of its lines.
#[derive(Clone, Debug)]
pub(crate) struct Problems {
    file: String,
    list: Vec<Problem>,
}

impl Problems {
    /// What was found in a file, in the order of its lines; nothing where the list is empty.
    pub(crate) fn found(file: &str, mut list: Vec<Problem>) -> Result<(), Self> {
        list.sort();
        list.dedup();
        if list.is_empty() { Ok(()) } else { Err(Self { file: file.to_owned(), list }) }
    }

    /// For scripts: each with its place, its key, what is wrong and the cure.
    pub(crate) fn as_json(&self) -> Vec<serde_json::Value> {
        let one = |problem: &Problem| {
            let (line, column) = problem.place.unzip();
            let at = problem.place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
            serde_json::json!({
                "place": format!("{}{at}", self.file), "line": line, "column": column,
                "key": problem.path, "message": problem.what, "cure": problem.cure,
            })
        };
        self.list.iter().map(one).collect()
    }

    /// A file that could not even be read.
    pub(crate) fn whole_file(file: &str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        let problem = Problem { place: None, path: String::new(), what: what.into(), cure: cure.into() };
        Self { file: file.to_owned(), list: vec![problem] }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            f.write_str(&self.file)?;
            if let Some((line, column)) = problem.place {
                write!(f, ":{line}:{column}")?;
            }
            for part in [&problem.path, &problem.what].into_iter().filter(|part| !part.is_empty()) {
                write!(f, ": {part}")?;
            }
            if !problem.cure.is_empty() {
                write!(f, "; {}", problem.cure)?;
            }
            writeln!(f)?;
        }
        match self.list.len() {
            1 => write!(f, "1 problem in {}", self.file),
            many => write!(f, "{many} problems in {}", self.file),
        }
    }
}

impl std::error::Error for Problems {}

/// Gathers problems while a file is read; readers share it, so that one mistake does not hide the next.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    list: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<String>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, list: RefCell::default(), warnings: RefCell::default() }
    }

    /// An empty report about the same text.
    pub(crate) fn apart(&self) -> Self {
        Self::new(self.file, self.text)
    }

    /// Adds a problem at a byte offset of the text.
    pub(crate) fn add(&self, at: usize, path: &str, what: impl Into<String>, cure: impl Into<String>) {
        let place = Some(self.place(at));
        let problem = Problem { place, path: path.to_owned(), what: what.into(), cure: cure.into() };
        self.list.borrow_mut().push(problem);
    }

    pub(crate) fn place(&self, at: usize) -> Place {
        line_and_column(self.text, at)
    }

    /// Adds something that is allowed but that a person should know.
    pub(crate) fn warn(&self, warning: impl Into<String>) {
        self.warnings.borrow_mut().push(warning.into());
    }

    /// True when something was already said about this key or a part of it.
    pub(crate) fn mentions(&self, path: &str) -> bool {
        self.list.borrow().iter().any(|problem| {
            let rest = problem.path.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// The warnings, if there was no problem; else the problems.
    pub(crate) fn finish(self) -> Result<Vec<String>, Problems> {
        let file = self.file;
        let (problems, warnings) = self.into_parts();
        Problems::found(file, problems).map(|()| warnings)
    }

    pub(crate) fn into_parts(self) -> (Vec<Problem>, Vec<String>) {
        (self.list.into_inner(), self.warnings.into_inner())
    }
}

fn line_and_column(text: &str, at: usize) -> Place {
    let boundary = (0..=at.min(text.len())).rev().find(|index| text.is_char_boundary(*index));
    let before = &text[..boundary.unwrap_or(0)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        for (text, at, expected) in
            [("", 0, (1, 1)), ("a\nbc", 3, (2, 2)), ("ü = 1", 2, (1, 2)), ("ü", 1, (1, 1)), ("a\n", 99, (2, 1))]
        {
            assert_eq!(line_and_column(text, at), expected, "{text:?} at {at}");
        }
    }

    #[test]
    fn lines_hold_place_key_what_and_cure() {
        let report = Report::new("oncebox.toml", "[server]\nx = 1\n");
        report.add(9, "server.x", "unknown key", "remove it");
        report.add(0, "", "odd", "");
        let problems = report.finish().expect_err("two problems").to_string();
        assert_eq!(
            problems,
            "oncebox.toml:1:1: odd\noncebox.toml:2:1: server.x: unknown key; remove it\n2 problems in oncebox.toml"
        );
    }

    #[test]
    fn a_key_is_mentioned_by_its_parts_only() {
        let report = Report::new("f", "");
        report.add(0, "source.a.secrets[0]", "x", "");
        for (path, expected) in [("source.a.secrets", true), ("source.a", true), ("source.a.sec", false), ("b", false)]
        {
            assert_eq!(report.mentions(path), expected, "{path}");
        }
    }
}
