//! Reads JSON text forwards, once: checks the grammar and says where each value ends.
//!
//! Skipping does not recurse and keeps one bit for each open list or object, so depth costs next to nothing. Strings are
//! skipped eight bytes at a time, because most of a webhook's body is text that nobody looks at.

use std::borrow::Cow;

use super::{Text, Unreadable};

#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The same for bytes, which must be UTF-8.
    pub(crate) fn of_bytes(text: &'a [u8]) -> Result<Self, Unreadable> {
        std::str::from_utf8(text).map(Self::new).map_err(|_not_utf8| Unreadable)
    }

    /// The next byte that is not white space; the scanner stands on it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.at = space(self.bytes(), self.at);
        self.bytes().get(self.at).copied()
    }

    /// Goes over the next byte if it is this one.
    pub(crate) fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    pub(crate) fn end(&mut self) -> Result<(), Unreadable> {
        if self.peek().is_none() { Ok(()) } else { Err(Unreadable) }
    }

    #[inline]
    pub(crate) fn name(&mut self) -> Result<Cow<'a, str>, Unreadable> {
        let start = opening(self.bytes(), self.at)?;
        let (end, escaped) = string(self.bytes(), start)?;
        self.at = byte(self.bytes(), end, b':')?;
        if escaped {
            let raw = &self.text[start - 1..end];
            return serde_json::from_str::<Text<'a>>(raw).map(|text| text.0).map_err(|_no_text| Unreadable);
        }
        Ok(Cow::Borrowed(&self.text[start..end - 1]))
    }

    /// After an element or a member: true when another follows, false when `close` ended them.
    pub(crate) fn another(&mut self, close: u8) -> Result<bool, Unreadable> {
        let (at, follows) = another(self.bytes(), self.at, close)?;
        self.at = at;
        Ok(follows)
    }

    /// Goes over one value of any kind.
    pub(crate) fn skip(&mut self) -> Result<(), Unreadable> {
        self.at = value(self.bytes(), self.at)?;
        Ok(())
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }
}

// Each of these starts at a position and returns the one behind what it went over.

fn value(text: &[u8], mut at: usize) -> Result<usize, Unreadable> {
    let mut nesting = Nesting::default();
    loop {
        at = space(text, at);
        at = match text.get(at) {
            Some(b'"') => string(text, at + 1)?.0,
            Some(b'{') => {
                let first = space(text, at + 1);
                if text.get(first) == Some(&b'}') {
                    first + 1
                } else {
                    nesting.open(Inside::Object);
                    at = member(text, first)?;
                    continue;
                }
            }
            Some(b'[') => {
                let first = space(text, at + 1);
                if text.get(first) == Some(&b']') {
                    first + 1
                } else {
                    nesting.open(Inside::List);
                    at = first;
                    continue;
                }
            }
            Some(b'-' | b'0'..=b'9') => number(text, at)?,
            Some(b't') => word(text, at, b"true")?,
            Some(b'f') => word(text, at, b"false")?,
            Some(b'n') => word(text, at, b"null")?,
            _ => return Err(Unreadable),
        };
        loop {
            let Some(inside) = nesting.inside() else { return Ok(at) };
            let close = if inside == Inside::Object { b'}' } else { b']' };
            let (after, follows) = another(text, at, close)?;
            at = after;
            if follows {
                at = if inside == Inside::Object { member(text, at)? } else { at };
                break;
            }
            nesting.close();
        }
    }
}

#[inline]
fn member(text: &[u8], at: usize) -> Result<usize, Unreadable> {
    let (end, _) = string(text, opening(text, at)?)?;
    byte(text, end, b':')
}

#[inline]
fn opening(text: &[u8], at: usize) -> Result<usize, Unreadable> {
    byte(text, at, b'"')
}

#[inline]
fn another(text: &[u8], at: usize, close: u8) -> Result<(usize, bool), Unreadable> {
    let at = space(text, at);
    match text.get(at) {
        Some(b',') => Ok((at + 1, true)),
        Some(byte) if *byte == close => Ok((at + 1, false)),
        _ => Err(Unreadable),
    }
}

/// White space and this byte.
#[inline]
fn byte(text: &[u8], at: usize, wanted: u8) -> Result<usize, Unreadable> {
    let at = space(text, at);
    if text.get(at) == Some(&wanted) { Ok(at + 1) } else { Err(Unreadable) }
}

#[inline]
fn space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// The rest of a string whose quote was read, and whether it holds escapes.
#[inline]
fn string(text: &[u8], mut at: usize) -> Result<(usize, bool), Unreadable> {
    let mut escaped = false;
    loop {
        at = plain(text, at);
        match text.get(at) {
            Some(b'"') => return Ok((at + 1, escaped)),
            Some(b'\\') => {
                escaped = true;
                at = escape(text, at)?;
            }
            // The end of the text, or a control character.
            _ => return Err(Unreadable),
        }
    }
}

fn escape(text: &[u8], at: usize) -> Result<usize, Unreadable> {
    match text.get(at + 1..).unwrap_or_default() {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Ok(at + 2),
        [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
        _ => Err(Unreadable),
    }
}

#[inline]
fn number(text: &[u8], mut at: usize) -> Result<usize, Unreadable> {
    at += usize::from(text.get(at) == Some(&b'-'));
    at = if text.get(at) == Some(&b'0') { at + 1 } else { digits(text, at)? };
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        at = digits(text, at)?;
    }
    Ok(at)
}

#[inline]
fn digits(text: &[u8], start: usize) -> Result<usize, Unreadable> {
    let mut at = start;
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at > start { Ok(at) } else { Err(Unreadable) }
}

#[inline]
fn word(text: &[u8], at: usize, word: &[u8]) -> Result<usize, Unreadable> {
    let end = at + word.len();
    if text.get(at..end) == Some(word) { Ok(end) } else { Err(Unreadable) }
}

/// Goes over a string's bytes up to a quote, a backslash, a control character or the end.
#[inline]
fn plain(text: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    // Borrows run upwards only, so that the lowest byte that is marked is always a right one.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let marks = (quote | backslash | below(word, b' ')) & HIGHS;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while text.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..b' ')) {
        at += 1;
    }
    at
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    List,
    Object,
}

/// What is open, innermost in the lowest bit; full words go to the side.
#[derive(Default)]
struct Nesting {
    bits: u64,
    depth: u32,
    outer: Vec<u64>,
}

impl Nesting {
    #[inline]
    fn open(&mut self, inside: Inside) {
        if self.depth == u64::BITS {
            self.outer.push(self.bits);
            self.depth = 0;
        }
        self.bits = self.bits << 1 | u64::from(inside == Inside::Object);
        self.depth += 1;
    }

    #[inline]
    fn close(&mut self) {
        self.bits >>= 1;
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0
            && let Some(bits) = self.outer.pop()
        {
            self.bits = bits;
            self.depth = u64::BITS;
        }
    }

    #[inline]
    fn inside(&self) -> Option<Inside> {
        match self.depth {
            0 => None,
            _ if self.bits & 1 == 1 => Some(Inside::Object),
            _ => Some(Inside::List),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn is_json(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.skip().and_then(|()| scanner.end()).is_ok()
    }

    fn check(text: &str) {
        let expected = serde_json::from_str::<IgnoredAny>(text).is_ok();
        assert_eq!(is_json(text), expected, "{}", &text[..text.len().min(80)]);
    }

    #[test]
    fn takes_what_the_grammar_takes() {
        for text in [
            "0",
            "-0",
            "01",
            "1.",
            ".5",
            "1.5e+3",
            "1e",
            "-",
            "+1",
            "1e-7",
            "12x",
            "true",
            "tru",
            "nullx",
            "\"\"",
            "\"a",
            "\"\\u00e9\"",
            "\"\\u00g9\"",
            "\"\\u00e\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\u{1f}\"",
            "\"\u{7f}é\"",
            "\"\\\\\"",
            "[]",
            "[,]",
            "[1,]",
            "[1 2]",
            "[[],{}]",
            "{}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1 \"b\":2}",
            "[}",
            "{]",
            " [ 1 , { \"a\" : [ null ] } ] ",
            "[1]]",
            "",
            " ",
            "\u{feff}1",
        ] {
            check(text);
        }
        for depth in [63, 64, 65, 128, 129, 1000] {
            let mixed = format!("{}1{}", "[{\"a\":".repeat(depth), "}]".repeat(depth));
            assert!(is_json(&mixed), "{depth}");
            assert!(!is_json(&format!("{mixed}]")), "{depth}");
            assert!(!is_json(&mixed.replacen("}]", "]}", 1)), "{depth}");
        }
    }

    #[test]
    fn a_special_byte_is_found_wherever_it_stands() {
        for length in 0..40 {
            for (special, at) in
                [0_u8, 31, b'"', b'\\'].into_iter().flat_map(|byte| (0..length).map(move |at| (byte, at)))
            {
                let mut text = vec![b'!'; length];
                text[at] = special;
                assert_eq!(plain(&text, 0), at);
                text.iter_mut().skip(at + 1).for_each(|byte| *byte = b'#');
                text.iter_mut().take(at).for_each(|byte| *byte = 0xc3);
                assert_eq!(plain(&text, 0), at);
            }
        }
        assert_eq!(plain("]é[ \u{7f}zzzzzzzzz".as_bytes(), 0), 15);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_another_reader(text in r#"[\[\]{}",:\\u0-9aeE+.truefalsnl \t\n-]{0,24}"#) {
            check(&text);
        }
    }
}
