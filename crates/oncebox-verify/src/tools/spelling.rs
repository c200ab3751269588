//! The same JSON as another writer would have put it.

/// The white space that a writer of JSON puts between things.
#[derive(Clone, Copy)]
enum Style {
    Compact,
    Spaced,
    Pretty(usize),
}

/// What a writer of JSON escapes in strings beyond what it must.
#[derive(Clone, Copy, Debug)]
struct Escapes {
    /// As PHP does.
    slashes: bool,
    /// All that is not ASCII, as PHP and Python do.
    letters: bool,
}

/// Every way of writing that is worth a try, with its name.
pub(crate) fn spellings(text: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let styles = [
        (Style::Compact, "without spaces"),
        (Style::Spaced, "with a space after commas and colons"),
        (Style::Pretty(2), "over many lines"),
        (Style::Pretty(4), "over many lines"),
    ];
    let escaped = |slashes, letters| Some(Escapes { slashes, letters });
    let escapes = [
        (None, ""),
        (escaped(false, false), ", letters and slashes as they are"),
        (escaped(true, false), ", slashes as \\/"),
        (escaped(false, true), ", letters beyond ASCII as \\u and a number"),
        (escaped(true, true), ", slashes as \\/ and letters beyond ASCII as \\u and a number"),
    ];
    escapes.into_iter().flat_map(move |(escapes, and)| {
        let rewritten = rewrite(text, escapes);
        styles.map(|(style, how)| (format!("the same JSON written {how}{and}"), reflow(&rewritten, style)))
    })
}

/// Writes the strings anew, where it is said how; what stands between them stays.
fn rewrite(text: &[u8], escapes: Option<Escapes>) -> Vec<u8> {
    let Some(escapes) = escapes else { return text.to_vec() };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.iter().position(|byte| *byte == b'"') {
        let (before, string) = rest.split_at(start);
        let (string, after) = string.split_at(string_length(string));
        out.extend_from_slice(before);
        match serde_json::from_slice::<String>(string) {
            Ok(value) => write_string(&mut out, &value, escapes),
            Err(_not_a_string) => out.extend_from_slice(string),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

fn write_string(out: &mut Vec<u8>, value: &str, escapes: Escapes) {
    for part in serde_json::to_string(value).unwrap_or_default().chars() {
        match part {
            '/' if escapes.slashes => out.extend_from_slice(b"\\/"),
            letter if escapes.letters && !letter.is_ascii() => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Writes JSON with other white space; names, numbers and strings stay as they are.
fn reflow(text: &[u8], style: Style) -> Vec<u8> {
    let tokens = tokens(text);
    let mut out = Vec::with_capacity(text.len());
    let mut depth: usize = 0;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1).copied().unwrap_or_default();
        let line = |out: &mut Vec<u8>, depth: usize| {
            if let Style::Pretty(indent) = style {
                out.push(b'\n');
                out.resize(out.len() + indent * depth.min(64), b' ');
            }
        };
        match (*token, style) {
            (b"{" | b"[", _) => {
                depth += 1;
                out.extend_from_slice(token);
                if !matches!(next, b"}" | b"]") {
                    line(&mut out, depth);
                }
            }
            (b"}" | b"]", _) => {
                depth = depth.saturating_sub(1);
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.extend_from_slice(token);
            }
            (b",", Style::Spaced) => out.extend_from_slice(b", "),
            (b",", _) => {
                out.push(b',');
                line(&mut out, depth);
            }
            (b":", Style::Spaced | Style::Pretty(_)) => out.extend_from_slice(b": "),
            _ => out.extend_from_slice(token),
        }
    }
    out
}

/// Strings, punctuation and everything between, without white space.
fn tokens(text: &[u8]) -> Vec<&[u8]> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = match rest[0] {
            b'"' => string_length(rest),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            _ => rest.iter().position(|byte| b"{}[],:\" \t\r\n".contains(byte)).unwrap_or(rest.len()).max(1),
        };
        tokens.push(&rest[..length]);
        at += length;
    }
    tokens
}

fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(slashes: bool, letters: bool) -> Option<Escapes> {
        Some(Escapes { slashes, letters })
    }

    #[test]
    fn strings_are_written_as_others_would() {
        let text = r#"{ "url": "a\/b", "é\u00e9": ["\"/\\", "😀", 1e5, "cut" ] }"#.as_bytes();
        let check = |escapes: Option<Escapes>, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&rewrite(text, escapes)), expected, "{escapes:?}");
        };
        check(None, r#"{ "url": "a\/b", "é\u00e9": ["\"/\\", "😀", 1e5, "cut" ] }"#);
        check(escaped(false, false), r#"{ "url": "a/b", "éé": ["\"/\\", "😀", 1e5, "cut" ] }"#);
        check(escaped(true, false), r#"{ "url": "a\/b", "éé": ["\"\/\\", "😀", 1e5, "cut" ] }"#);
        check(escaped(false, true), r#"{ "url": "a/b", "\u00e9\u00e9": ["\"/\\", "\ud83d\ude00", 1e5, "cut" ] }"#);
        check(escaped(true, true), r#"{ "url": "a\/b", "\u00e9\u00e9": ["\"\/\\", "\ud83d\ude00", 1e5, "cut" ] }"#);
    }

    #[test]
    fn broken_strings_stay_as_they_are() {
        for text in ["\"", "{\"a", "\"\\ud800\"", "\"\\x\" \"", ""] {
            assert_eq!(rewrite(text.as_bytes(), escaped(true, true)), text.as_bytes());
        }
    }
}
