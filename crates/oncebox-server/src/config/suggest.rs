//! "Did you mean …?" for a word that is not in the list.

/// The known word that is nearest, if it is near enough to be a slip of the finger.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A pasted page is no typing error, and the comparison takes the product of both lengths.
    if word.len() > 64 {
        return None;
    }
    let allowed = (word.chars().count() / 3).max(1);
    let candidates = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    candidates.filter(|(distance, _)| *distance <= allowed).min().map(|(_, candidate)| candidate)
}

/// What to do about an unknown word: the nearest known one, else all of them.
pub(crate) fn cure(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    }
}

/// Levenshtein distance, where swapping two neighbours counts as one slip.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut last = None;
    for (i, a) in left.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut cost = (row[j] + usize::from(a != *b)).min(row[j + 1] + 1).min(next[j] + 1);
            if j > 0 && last == Some(*b) && right[j - 1] == a {
                cost = cost.min(before[j - 1] + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(a);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["listen", "admin_listen", "grace", "workers"];
        for (word, expected) in [
            ("lisen", Some("listen")),
            ("listne", Some("listen")),
            ("admin_lsten", Some("admin_listen")),
            ("worker", Some("workers")),
            ("Grace", Some("grace")),
            ("database", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
