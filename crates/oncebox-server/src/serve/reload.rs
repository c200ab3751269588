//! What a reload changed, by name, for the log.

use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct Changes {
    count: usize,
    added: Vec<String>,
    removed: Vec<String>,
}

impl Changes {
    pub(crate) fn between<S: AsRef<str>>(
        before: impl IntoIterator<Item = S>,
        after: impl IntoIterator<Item = S>,
    ) -> Self {
        let set = |names: &mut dyn Iterator<Item = S>| names.map(|name| name.as_ref().to_owned()).collect();
        let (before, after): (BTreeSet<String>, BTreeSet<String>) =
            (set(&mut before.into_iter()), set(&mut after.into_iter()));
        Self {
            count: after.len(),
            added: after.difference(&before).cloned().collect(),
            removed: before.difference(&after).cloned().collect(),
        }
    }

    /// A line such as `3 sources (added a, b; removed c)`.
    pub(crate) fn told(&self, noun: &str) -> String {
        let mut parts = Vec::new();
        for (verb, names) in [("added", &self.added), ("removed", &self.removed)] {
            if !names.is_empty() {
                parts.push(format!("{verb} {}", names.join(", ")));
            }
        }
        let plural = if self.count == 1 { "" } else { "s" };
        let changed = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) };
        format!("{} {noun}{plural}{changed}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_name() {
        let check = |before: &[&str], after: &[&str], expected: &str| {
            assert_eq!(Changes::between(before.iter(), after.iter()).told("source"), expected);
        };
        check(&["a"], &["a"], "1 source");
        check(&["c", "a"], &["b", "a", "d"], "3 sources (added b, d; removed c)");
        check(&["a"], &[], "0 sources (removed a)");
    }
}
