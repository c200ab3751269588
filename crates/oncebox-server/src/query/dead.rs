//! Dead letters grouped by what they gave up with, so that one cause is one line however many it hit.

use std::collections::HashMap;

use oncebox::gateway::limits::DEPTH_MAX;
use oncebox::gateway::store::{DeadError, Store};

use super::Result;
use crate::query::view::{DeadGroupView, DeadGroupsView, LetterKind, time};

/// Characters of an error that tell one group from another.
const ERROR_CHARS_MAX: usize = 200;

/// The newest dead letters by handler or destination and error, the largest group first.
pub(crate) async fn groups(store: &Store) -> Result<DeadGroupsView> {
    let deliveries = store.dead_errors(DEPTH_MAX + 1).await?;
    let messages = store.dead_message_errors(DEPTH_MAX + 1).await?;
    let more = deliveries.len() > DEPTH_MAX || messages.len() > DEPTH_MAX;
    let mut groups: HashMap<(LetterKind, String, String), DeadGroupView> = HashMap::new();
    let letters = deliveries.iter().take(DEPTH_MAX).map(|letter| (LetterKind::Delivery, letter));
    for (kind, letter) in letters.chain(messages.iter().take(DEPTH_MAX).map(|letter| (LetterKind::Message, letter))) {
        let error = normalised(letter.error.as_deref().unwrap_or_default());
        let key = (kind, letter.name.clone(), error.clone());
        groups.entry(key).or_insert_with(|| empty(kind, letter, error)).add(letter);
    }
    let mut items: Vec<DeadGroupView> = groups.into_values().collect();
    items.sort_by(|a, b| (b.count, &a.name, &a.error).cmp(&(a.count, &b.name, &b.error)));
    Ok(DeadGroupsView { items, more, next_cursor: None })
}

impl DeadGroupView {
    /// Letters come in the order of their arrival, which need not be the one in which they gave up.
    fn add(&mut self, letter: &DeadError) {
        self.count += 1;
        let at = letter.at.map(time);
        self.newest_at = self.newest_at.take().max(at.clone());
        self.oldest_at = self.oldest_at.take().into_iter().chain(at).min();
    }
}

fn empty(kind: LetterKind, letter: &DeadError, error: String) -> DeadGroupView {
    DeadGroupView {
        kind,
        name: letter.name.clone(),
        error,
        count: 0,
        newest_at: None,
        oldest_at: None,
        example: letter.error.clone(),
        example_id: letter.id.to_string(),
        example_key: letter.key.map(|key| key.to_string()),
    }
}

/// The same error with other numbers and ids in it is the same error.
fn normalised(error: &str) -> String {
    let mut text = String::new();
    let mut word = String::new();
    for c in error.chars().take(ERROR_CHARS_MAX * 2) {
        if c.is_alphanumeric() || c == '-' || c == '_' {
            word.push(c);
        } else {
            text.push_str(&folded(&word));
            word.clear();
            text.push(if c.is_whitespace() { ' ' } else { c });
        }
    }
    text.push_str(&folded(&word));
    text.chars().take(ERROR_CHARS_MAX).collect()
}

/// A word that holds a digit names one thing of many, unless the digits are all that it ends in, as in `http2`.
fn folded(word: &str) -> String {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let is_hex = word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    match (digits, letters) {
        (0, _) => word.to_owned(),
        (_, 0) => "#".to_owned(),
        _ if is_hex || digits >= 3 || word.len() >= 16 => "#".to_owned(),
        _ => word.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_one() {
        for (error, expected) in [
            ("the target answered 503 after 12 ms", "the target answered # after # ms"),
            ("no row for evt_1NG8Du2eZvKYlo2C", "no row for #"),
            ("key 019a8d2e-5b1c-7f00-8000-3c6f0e9a7b11 is gone", "key # is gone"),
            ("digest deadbeef00 differs", "digest # differs"),
            ("http2 stream 7 was reset", "http# stream # was reset"),
            ("connection refused", "connection refused"),
            ("", ""),
            ("line one\nline two", "line one line two"),
        ] {
            assert_eq!(normalised(error), expected);
        }
        assert_eq!(normalised(&"é".repeat(5000)).chars().count(), ERROR_CHARS_MAX);
    }
}
