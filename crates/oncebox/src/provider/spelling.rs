//! The same JSON as another writer would have put it.

/// The white space that a writer of JSON puts between things.
#[derive(Clone, Copy)]
pub(super) enum Style {
    Compact,
    Spaced,
    Pretty(usize),
}

/// Writes JSON with other white space; names, numbers and strings stay as they are.
pub(super) fn reflow(text: &[u8], style: Style) -> Vec<u8> {
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
