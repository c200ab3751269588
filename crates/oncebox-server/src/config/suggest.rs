//! "Did you mean …?" for a word that is not in the list.

use strsim::osa_distance;

/// The known word that is nearest, if it is near enough to be a slip of the finger.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A pasted page is no typing error, and the comparison takes the product of both lengths.
    if word.len() > 64 {
        return None;
    }
    let allowed = (word.chars().count() / 3).max(1);
    let candidates = known.into_iter().map(|candidate| (osa_distance(word, candidate), candidate));
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
