//! A typed reader over the spanned TOML tree.
//!
//! Keys are taken out of a table one by one; a wrong type is reported and the default goes on, so that reading reaches
//! the end and every problem is found in one run. What nobody took is an unknown key.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::outside::Outside;
use super::problem::{Place, Report};
use super::suggest;
use super::units::{parse_duration, parse_size, show_duration, show_size};

/// A table from which keys are taken.
#[derive(Clone, Debug)]
pub(crate) struct Table<'a> {
    pub(crate) scope: Scope<'a>,
    entries: Vec<(&'a str, Item<'a>)>,
    asked: Vec<&'a str>,
}

/// One value with its key path and place.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) value: &'a Spanned<DeValue<'a>>,
}

/// A whole number of some size.
pub(crate) trait Whole: TryFrom<u64> + PartialOrd + Display {}

impl<N: TryFrom<u64> + PartialOrd + Display> Whole for N {}

/// Where we are, and whom to tell.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) report: &'a Report<'a>,
    pub(crate) outside: &'a Outside<'a>,
    pub(crate) path: String,
    pub(crate) at: usize,
}

impl<'a> Scope<'a> {
    pub(crate) fn problem(&self, what: impl Into<String>, cure: impl Into<String>) {
        self.report.add(self.at, &self.path, what, cure);
    }

    fn child(&self, key: &str, at: usize) -> Self {
        let key = if is_bare(key) { key.to_owned() } else { format!("{key:?}") };
        let path = if self.path.is_empty() { key } else { format!("{}.{key}", self.path) };
        Self { path, at, ..self.clone() }
    }
}

impl<'a> Table<'a> {
    pub(crate) fn new(scope: Scope<'a>, table: &'a DeTable<'a>) -> Self {
        let item = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let key_text: &'a str = AsRef::<std::borrow::Cow<'a, str>>::as_ref(key);
            (key_text, Item { scope: scope.child(key_text, key.span().start), value })
        };
        let entries = table.iter().map(item).collect();
        Self { scope, entries, asked: Vec::new() }
    }

    pub(crate) fn absent(scope: Scope<'a>) -> Self {
        Self { scope, entries: Vec::new(), asked: Vec::new() }
    }

    pub(crate) fn take(&mut self, key: &'a str) -> Option<Item<'a>> {
        self.asked.push(key);
        let position = self.entries.iter().position(|(name, _)| *name == key)?;
        Some(self.entries.swap_remove(position).1)
    }

    /// Looks at a key without taking it, for a problem that only shows once other keys are read.
    pub(crate) fn peek(&self, key: &str) -> Option<Item<'a>> {
        self.entries.iter().find(|(name, _)| *name == key).map(|(_, item)| item.clone())
    }

    pub(crate) fn required(&mut self, key: &'a str, cure: &str) -> Option<Item<'a>> {
        let item = self.take(key);
        if item.is_none() {
            self.scope.problem(format!("{key} is missing"), cure);
        }
        item
    }

    /// Takes a section, `[key]` or `key = { … }`; an absent one reads as empty.
    pub(crate) fn section(&mut self, key: &'a str) -> Self {
        let absent = self.scope.child(key, self.scope.at);
        self.take(key).and_then(|item| item.table()).unwrap_or_else(|| Self::absent(absent))
    }

    /// Takes a `[[key]]` list; each entry is named after its `name` where it has one.
    pub(crate) fn sections(&mut self, key: &'a str) -> Vec<Self> {
        let Some(item) = self.take(key) else { return Vec::new() };
        let DeValue::Array(array) = item.value.get_ref() else {
            item.problem(
                format!("is {}, not a list of tables", kind(item.value.get_ref())),
                format!("write [[{key}]]"),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, value) in array.iter().enumerate() {
            let mut scope = item.scope.clone();
            (scope.path, scope.at) = (section_path(key, index, value.get_ref()), value.span().start);
            let entry = Item { scope, value };
            tables.extend(entry.table());
        }
        tables
    }

    pub(crate) fn flag(&mut self, key: &'a str) -> Option<bool> {
        let item = self.take(key)?;
        match item.value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => item.wrong(other, "true or false"),
        }
    }

    pub(crate) fn text(&mut self, key: &'a str) -> Option<&'a str> {
        self.take(key)?.text()
    }

    pub(crate) fn count<N: Whole>(&mut self, key: &'a str, range: RangeInclusive<N>) -> Option<N> {
        self.take(key)?.count(range)
    }

    pub(crate) fn duration(&mut self, key: &'a str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let item = self.take(key)?;
        let parsed = item.parsed(parse_duration, "a duration such as \"30s\", \"1h30m\" or \"14d\"")?;
        item.within(parsed, range, |value| format!("\"{}\"", show_duration(*value)))
    }

    pub(crate) fn size(&mut self, key: &'a str, range: RangeInclusive<usize>) -> Option<usize> {
        let item = self.take(key)?;
        let parsed = item.parsed(parse_size, "a size such as \"64KiB\" or \"25MiB\"")?;
        item.within(parsed, range, |value| format!("\"{}\"", show_size(*value)))
    }

    /// Takes one of a few words.
    pub(crate) fn word<T: Copy>(&mut self, key: &'a str, words: &[(&str, T)]) -> Option<T> {
        let item = self.take(key)?;
        let text = item.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            item.problem(format!("{text:?} is not a word for it"), suggest::cure(text, &known));
        }
        found.map(|(_, value)| *value)
    }

    /// Names keys that may stand here though nobody asked for them yet, for "did you mean".
    pub(crate) fn know(&mut self, keys: &[&'a str]) {
        for key in keys {
            if !self.asked.contains(key) {
                self.asked.push(key);
            }
        }
    }

    pub(crate) fn keys(&self) -> Vec<&'a str> {
        self.entries.iter().map(|(key, _)| *key).collect()
    }

    pub(crate) fn rest(&mut self) -> Vec<(&'a str, Item<'a>)> {
        std::mem::take(&mut self.entries)
    }

    /// Reports every key that nobody took.
    pub(crate) fn finish(mut self) {
        let asked = std::mem::take(&mut self.asked);
        for (key, item) in self.rest() {
            item.problem("unknown key", suggest::cure(key, &asked));
        }
    }
}

impl<'a> Item<'a> {
    pub(crate) fn problem(&self, what: impl Into<String>, cure: impl Into<String>) {
        self.scope.problem(what, cure);
    }

    pub(crate) fn place(&self) -> Place {
        self.scope.report.place(self.scope.at)
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text),
            other => self.wrong(other, "a text in quotes"),
        }
    }

    pub(crate) fn count<N: Whole>(&self, range: RangeInclusive<N>) -> Option<N> {
        let DeValue::Integer(integer) = self.value.get_ref() else {
            return self.wrong(self.value.get_ref(), "a whole number without quotes");
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        match number.and_then(|number| N::try_from(number).ok()) {
            Some(number) => self.within(number, range, ToString::to_string),
            None => self.out_of_range(&range, ToString::to_string),
        }
    }

    pub(crate) fn table(&self) -> Option<Table<'a>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(Table::new(self.scope.clone(), table)),
            other => self.wrong(other, "a table"),
        }
    }

    pub(crate) fn list(&self) -> Option<Vec<Item<'a>>> {
        let DeValue::Array(array) = self.value.get_ref() else {
            return self.wrong(self.value.get_ref(), "a list in square brackets");
        };
        let element = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| {
            let path = format!("{}[{index}]", self.scope.path);
            Item { scope: Scope { path, at: value.span().start, ..self.scope.clone() }, value }
        };
        Some(array.iter().enumerate().map(element).collect())
    }

    /// The value as a list that says something.
    pub(crate) fn filled_list(&self, cure: &str) -> Option<Vec<Item<'a>>> {
        let list = self.list()?;
        if list.is_empty() {
            self.problem("is empty", cure);
        }
        Some(list)
    }

    /// The value as a text in a form of its own; `form` names it with an example.
    pub(crate) fn parsed<T>(&self, parse: impl Fn(&str) -> Option<T>, form: &str) -> Option<T> {
        let DeValue::String(text) = self.value.get_ref() else {
            return self.wrong(self.value.get_ref(), form);
        };
        let parsed = parse(text);
        if parsed.is_none() {
            self.problem(format!("is not {}", strip_example(form)), format!("write {form}"));
        }
        parsed
    }

    /// Says that the value has another type than it should; never quotes it.
    pub(crate) fn wrong<T>(&self, found: &DeValue<'_>, wanted: &str) -> Option<T> {
        self.problem(format!("is {}", kind(found)), format!("write {wanted}"));
        None
    }

    fn within<T: PartialOrd>(&self, value: T, range: RangeInclusive<T>, show: impl Fn(&T) -> String) -> Option<T> {
        if range.contains(&value) { Some(value) } else { self.out_of_range(&range, show) }
    }

    fn out_of_range<T, U>(&self, range: &RangeInclusive<U>, show: impl Fn(&U) -> String) -> Option<T> {
        let (low, high) = (show(range.start()), show(range.end()));
        self.problem("is out of range", format!("write a value from {low} to {high}"));
        None
    }
}

fn section_path(key: &str, index: usize, value: &DeValue<'_>) -> String {
    match value.get("name").and_then(|name| name.get_ref().as_str()) {
        Some(name) if is_bare(name) => format!("{key}.{name}"),
        _ => format!("{key}[{index}]"),
    }
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn strip_example(form: &str) -> &str {
    form.split(" such as ").next().unwrap_or(form)
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
