//! What a reload changed, by name, for the log.

use std::collections::BTreeSet;

use crate::terminal::counted;

/// A line such as `3 sources (added a, b; removed c)`.
pub(crate) fn summary<S: AsRef<str>>(
    noun: &str,
    before: impl IntoIterator<Item = S>,
    after: impl IntoIterator<Item = S>,
) -> String {
    let owned = |name: S| name.as_ref().to_owned();
    let before: BTreeSet<String> = before.into_iter().map(owned).collect();
    let after: BTreeSet<String> = after.into_iter().map(owned).collect();
    let of = |verb: &str, names: Vec<&str>| (!names.is_empty()).then(|| format!("{verb} {}", names.join(", ")));
    let added = of("added", after.difference(&before).map(String::as_str).collect());
    let removed = of("removed", before.difference(&after).map(String::as_str).collect());
    let parts: Vec<String> = added.into_iter().chain(removed).collect();
    let changed = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) };
    format!("{}{changed}", counted(after.len() as u64, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_name() {
        let check = |before: &[&str], after: &[&str], expected: &str| {
            assert_eq!(summary("source", before, after), expected);
        };
        check(&["a"], &["a"], "1 source");
        check(&["c", "a"], &["b", "a", "d"], "3 sources (added b, d; removed c)");
        check(&["a"], &[], "0 sources (removed a)");
    }
}
