//! Reads JSON text forwards, once: checks the grammar and says where each value ends.
//!
//! Skipping does not recurse and keeps one bit for each open list or object, so depth costs next to nothing. Strings are
//! skipped eight bytes at a time, because most of a webhook's body is text that nobody looks at.

use std::borrow::Cow;

use super::{Text, Unreadable};

/// A place in a text.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts before the first value.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is not white space; the scanner stands on it.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                _ => return Some(byte),
            }
        }
        None
    }

    /// Goes over the next byte if it is this one.
    #[inline]
    pub(super) fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    /// Where the scanner stands.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// What stands between a position and the scanner.
    pub(super) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Nothing but white space follows.
    pub(super) fn end(&mut self) -> Result<(), Unreadable> {
        if self.peek().is_none() { Ok(()) } else { Err(Unreadable) }
    }

    /// Reads a name and its colon.
    pub(super) fn name(&mut self) -> Result<Cow<'a, str>, Unreadable> {
        let (start, escaped) = self.raw_name()?;
        let raw = &self.text[start..self.at];
        self.colon()?;
        if escaped {
            return serde_json::from_str::<Text<'a>>(raw).map(|text| text.0).map_err(|_no_text| Unreadable);
        }
        Ok(Cow::Borrowed(&raw[1..raw.len() - 1]))
    }

    /// After an element or a member: true when another follows, false when `close` ended them.
    pub(super) fn another(&mut self, close: u8) -> Result<bool, Unreadable> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(Unreadable),
        }
    }

    /// Goes over one value of any kind.
    pub(super) fn skip(&mut self) -> Result<(), Unreadable> {
        let mut nesting = Nesting::default();
        loop {
            match self.peek() {
                Some(b'"') => _ = self.string()?,
                Some(b'{') => {
                    self.at += 1;
                    if !self.take(b'}') {
                        nesting.open(Inside::Object);
                        self.skip_name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.take(b']') {
                        nesting.open(Inside::List);
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word("true")?,
                Some(b'f') => self.word("false")?,
                Some(b'n') => self.word("null")?,
                _ => return Err(Unreadable),
            }
            if !self.leave(&mut nesting)? {
                return Ok(());
            }
        }
    }

    /// Closes what ends behind a value; true when another value follows.
    #[inline]
    fn leave(&mut self, nesting: &mut Nesting) -> Result<bool, Unreadable> {
        loop {
            match nesting.inside() {
                None => return Ok(false),
                Some(Inside::List) => {
                    if self.another(b']')? {
                        return Ok(true);
                    }
                }
                Some(Inside::Object) => {
                    if self.another(b'}')? {
                        self.skip_name()?;
                        return Ok(true);
                    }
                }
            }
            nesting.close();
        }
    }

    fn skip_name(&mut self) -> Result<(), Unreadable> {
        self.raw_name()?;
        self.colon()
    }

    fn raw_name(&mut self) -> Result<(usize, bool), Unreadable> {
        if self.peek() != Some(b'"') {
            return Err(Unreadable);
        }
        let start = self.at;
        Ok((start, self.string()?))
    }

    fn colon(&mut self) -> Result<(), Unreadable> {
        if self.take(b':') { Ok(()) } else { Err(Unreadable) }
    }

    /// Goes over the string that starts here; true when it holds escapes.
    #[inline]
    fn string(&mut self) -> Result<bool, Unreadable> {
        let mut escaped = false;
        self.at += 1;
        loop {
            self.at += plain(self.rest());
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                // The end of the text, or a control character.
                _ => return Err(Unreadable),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Unreadable> {
        match self.rest() {
            [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
            [_, b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => {
                self.at += 6
            }
            _ => return Err(Unreadable),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Unreadable> {
        self.at += usize::from(self.byte() == Some(b'-'));
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Unreadable> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Unreadable) }
    }

    fn word(&mut self, word: &str) -> Result<(), Unreadable> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(Unreadable);
        }
        self.at += word.len();
        Ok(())
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

/// How many bytes of a string come before a quote, a backslash or a control character.
#[inline]
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let (chunks, tail) = text.as_chunks::<8>();
    // Borrows run upwards only, so that the lowest byte that is marked is always a right one.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    for (index, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let marks = (quote | backslash | below(word, b' ')) & HIGHS;
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    chunks.len() * 8 + tail.iter().position(is_special).unwrap_or(tail.len())
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
                assert_eq!(plain(&text), at);
                text.iter_mut().skip(at + 1).for_each(|byte| *byte = b'#');
                text.iter_mut().take(at).for_each(|byte| *byte = 0xc3);
                assert_eq!(plain(&text), at);
            }
        }
        assert_eq!(plain("]é[ \u{7f}zzzzzzzzz".as_bytes()), 15);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn agrees_with_another_reader(text in r#"[\[\]{}",:\\u0-9aeE+.truefalsnl \t\n-]{0,24}"#) {
            check(&text);
        }
    }
}
