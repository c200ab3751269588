//! How the pages say numbers and times: in UTC, with the age in words beside it, and never longer than a glance needs;
//! and how they show a sender's text, so that it looks like nothing else.

use std::fmt::Write as _;

use askama::Template;
use askama::filters::HtmlSafe;
use oncebox::gateway::clock::UnixMillis;

use crate::query::view::{millis, time};

/// A moment: readable in UTC, exact for machines, with its age in words.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = r#"<time datetime="{{ exact }}" title="{{ exact }}">{{ clock }} <span class="ago">{{ ago }}</span></time>"#
)]
pub(crate) struct When {
    pub(crate) exact: String,
    pub(crate) clock: String,
    pub(crate) ago: String,
}

impl HtmlSafe for When {}

impl When {
    /// Reads what a view holds. What is no time is shown as it is.
    pub(crate) fn read(text: &str, now: UnixMillis) -> Self {
        match millis(text) {
            Some(time) => Self::at(time, now),
            None => Self { exact: String::new(), clock: text.to_owned(), ago: String::new() },
        }
    }

    /// The same of what may be absent.
    pub(crate) fn maybe(text: Option<&str>, now: UnixMillis) -> Option<Self> {
        text.map(|text| Self::read(text, now))
    }

    /// A moment as the clock has it.
    pub(crate) fn at(at: UnixMillis, now: UnixMillis) -> Self {
        let exact = time(at);
        let same_day = exact.get(..10) == time(now).get(..10);
        let (day, hour) = (exact.get(..10).unwrap_or(&exact), exact.get(11..19).unwrap_or_default());
        let clock = if same_day { format!("{hour} UTC") } else { format!("{day} {hour} UTC") };
        Self { clock, ago: ago(at, now), exact }
    }
}

/// An age in words, or how long until it is so.
pub(crate) fn ago(at: UnixMillis, now: UnixMillis) -> String {
    let apart = now.saturating_sub(at);
    match apart {
        0..1_000 => "just now".to_owned(),
        1_000.. => format!("{} ago", span(apart)),
        _ => format!("in {}", span(apart.saturating_neg())),
    }
}

/// A length of time in its two largest units.
pub(crate) fn span(millis: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = millis.max(0) / 1_000;
    if seconds == 0 {
        return format!("{} ms", millis.max(0));
    }
    let first = UNITS.iter().position(|(size, _)| seconds >= *size).unwrap_or(UNITS.len() - 1);
    let (size, name) = UNITS[first];
    let mut text = format!("{} {name}", seconds / size);
    let rest = seconds % size;
    if let Some((next, name)) = UNITS.get(first + 1).filter(|(next, _)| rest >= *next) {
        let _infallible = write!(text, " {} {name}", rest / next);
    }
    text
}

/// A share in percent, with as many digits as say something.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if value == 0.0 => "0 %".to_owned(),
        0.0..0.01 => "< 0.01 %".to_owned(),
        0.01..1.0 => format!("{value:.2} %"),
        1.0..99.95 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// A number with thin gaps between thousands.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        text.push('−');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A change with its sign, and whether it may be more.
pub(crate) fn grown(number: i64, is_least: bool) -> String {
    let sign = if number > 0 { "+" } else { "" };
    format!("{}{sign}{}", at_least(is_least), grouped(number))
}

/// A number that may be larger than was counted.
pub(crate) fn least(number: i64, is_least: bool) -> String {
    format!("{}{}", at_least(is_least), grouped(number))
}

fn at_least(is_least: bool) -> &'static str {
    if is_least { "at least " } else { "" }
}

/// So many things, in English.
pub(crate) fn counted(number: i64, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{} {stem}ies", grouped(number)),
        (_, None) => format!("{} {thing}s", grouped(number)),
    }
}

/// A size in the unit that people use for it.
pub(crate) fn bytes(count: usize) -> String {
    let value = count as f64;
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", value / 1_024.0),
        _ => format!("{:.1} MiB", value / 1_048_576.0),
    }
}

/// A sender's text with whatever cannot be seen, or turns what stands beside it, spelt out: `\u{202e}`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// A type that can be seen and clicked, even where there is none.
pub(crate) fn kind(event_type: &str) -> String {
    match event_type {
        "" => "(no type)".to_owned(),
        blank if blank.trim().is_empty() => "(blank type)".to_owned(),
        named => visible(named),
    }
}

/// Controls, and what Unicode tells a display to ignore. The script has the same list in fewer words.
fn is_unseen(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => true,
        '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_spelt_out() {
        for (text, expected) in [
            ("invoice.paid", "invoice.paid"),
            ("pay\u{202e}diap", "pay\\u{202e}diap"),
            ("a\u{200b}b\u{feff}\u{7}", "a\\u{200b}b\\u{feff}\\u{7}"),
            ("two\nlines\tof é 日本 🦀", "two\nlines\tof é 日本 🦀"),
        ] {
            assert_eq!(visible(text), expected);
        }
        for (text, expected) in [("", "(no type)"), (" \u{a0}\n", "(blank type)"), (" \u{200b}", " \\u{200b}")] {
            assert_eq!(kind(text), expected);
        }
    }

    #[test]
    fn ages() {
        for (millis, expected) in [
            (0, "just now"),
            (999, "just now"),
            (1_000, "1 s ago"),
            (61_000, "1 min 1 s ago"),
            (3_600_000, "1 h ago"),
            (90_000_000, "1 d 1 h ago"),
            (-5_000, "in 5 s"),
            (-300, "in 300 ms"),
        ] {
            assert_eq!(ago(1_700_000_000_000 - millis, 1_700_000_000_000), expected);
        }
    }

    #[test]
    fn numbers() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1\u{202f}000"), (-1_234_567, "−1\u{202f}234\u{202f}567")]
        {
            assert_eq!(grouped(number), expected);
        }
        for (share, expected) in
            [(0.0, "0 %"), (0.00001, "< 0.01 %"), (0.0051, "0.51 %"), (0.5, "50.0 %"), (0.98, "98.0 %"), (1.0, "100 %")]
        {
            assert_eq!(percent(share), expected);
        }
        assert_eq!((counted(1, "delivery"), counted(2, "delivery")), ("1 delivery".into(), "2 deliveries".into()));
        assert_eq!((bytes(12), bytes(2_048)), ("12 B".into(), "2.0 KiB".into()));
    }

    #[test]
    fn moments_are_exact_for_machines_and_short_for_people() {
        let now = 1_700_000_000_000;
        let when = When::at(now - 61_000, now);
        assert_eq!(when.exact, "2023-11-14T22:12:19.000Z");
        assert_eq!(when.clock, "22:12:19 UTC");
        assert_eq!(When::at(now - 172_800_000, now).clock, "2023-11-12 22:13:20 UTC");
        let html = When::read("<b>", now).to_string();
        assert!(!html.contains("<b>"), "{html}");
    }
}
