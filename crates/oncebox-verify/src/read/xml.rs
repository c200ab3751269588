//! Reads the text of a few elements out of XML, by their path from the root.
//!
//! A scanner and not a parser: it knows tags, comments, CDATA and the five named entities, keeps a path of bounded depth,
//! and gives up on everything else (declarations of types above all), so no input costs more than one pass.

/// Deeper nesting than this is not read.
const DEPTH_MAX: usize = 64;

/// The text at each path, where it stands exactly once or the first time; none when the text is no XML this reads.
///
/// `*` in a path fits any name. Leading and trailing white space is not part of a text.
pub(crate) fn find(xml: &str, paths: &[&[&str]]) -> Option<Vec<Option<String>>> {
    let mut found = vec![None; paths.len()];
    let mut path: Vec<&str> = Vec::new();
    let mut rest = xml;
    let mut text = String::new();
    while let Some(open) = rest.find('<') {
        text.push_str(&decode(&rest[..open])?);
        rest = &rest[open..];
        if let Some(after) = rest.strip_prefix("<!--") {
            rest = &after[after.find("-->")? + 3..];
        } else if let Some(after) = rest.strip_prefix("<![CDATA[") {
            let end = after.find("]]>")?;
            text.push_str(&after[..end]);
            rest = &after[end + 3..];
        } else if let Some(after) = rest.strip_prefix("<?") {
            rest = &after[after.find("?>")? + 2..];
        } else if rest.starts_with("<!") {
            return None;
        } else if let Some(after) = rest.strip_prefix("</") {
            let end = after.find('>')?;
            if path.last() != Some(&after[..end].trim_end()) {
                return None;
            }
            keep(&path, &text, paths, &mut found);
            path.pop();
            text.clear();
            rest = &after[end + 1..];
        } else {
            let end = tag_end(rest)?;
            let tag = &rest[1..end];
            let name = tag.split(|letter: char| letter.is_ascii_whitespace() || letter == '/').next()?;
            if name.is_empty() || path.len() == DEPTH_MAX {
                return None;
            }
            if !tag.ends_with('/') {
                path.push(name);
            }
            text.clear();
            rest = &rest[end + 1..];
        }
    }
    path.is_empty().then_some(found)
}

fn keep(path: &[&str], text: &str, paths: &[&[&str]], found: &mut [Option<String>]) {
    let fits = |wanted: &[&str]| {
        wanted.len() == path.len() && wanted.iter().zip(path).all(|(wanted, name)| *wanted == "*" || wanted == name)
    };
    for (wanted, slot) in paths.iter().zip(found) {
        if slot.is_none() && fits(wanted) && !text.trim().is_empty() {
            *slot = Some(text.trim().to_owned());
        }
    }
}

/// Where a tag ends: quotes may hold the bracket.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

fn decode(text: &str) -> Option<String> {
    let mut decoded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        let end = at + rest[at..].find(';')?;
        decoded.push(match &rest[at + 1..end] {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => char::from_u32(match number.strip_prefix("#x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.strip_prefix('#')?.parse().ok()?,
            })?,
        });
        rest = &rest[end + 1..];
    }
    decoded.push_str(rest);
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(xml: &str, expected: Option<[Option<&str>; 2]>) {
        let found = find(xml, &[&["a", "k"], &["a", "s", "*", "id"]]);
        let expected = expected.map(|texts| texts.map(|text| text.map(str::to_owned)).to_vec());
        assert_eq!(found, expected, "{xml}");
    }

    #[test]
    fn texts_by_path() {
        check("<a><k>x</k><s><t><id>7</id></t></s></a>", Some([Some("x"), Some("7")]));
        check(
            "<?xml version='1.0'?>\n<a b=\"<>\"><!-- <k> --><k c='1'> x&amp;&#65; </k><s/></a>\n",
            Some([Some("x&A"), None]),
        );
        check("<a><s><t><id><b>1</b></id><id>2</id></t></s></a>", Some([None, Some("2")]));
        check("<a><k><![CDATA[<k>]]></k></a>", Some([Some("<k>"), None]));
    }

    #[test]
    fn what_is_no_plain_xml_is_given_up() {
        for xml in
            ["<a>", "<a></b>", "</a>", "<!DOCTYPE a><a/>", "<a>&x;</a>", "<a", "<a><!-- </a>", "<>", "<a>&#0x;</a>"]
        {
            check(xml, None);
        }
        check(&"<a>".repeat(100), None);
        check("", Some([None, None]));
    }
}
