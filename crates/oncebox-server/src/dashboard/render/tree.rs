//! A JSON body as a tree of rows that open and close without a script.
//!
//! Bodies are hostile: depth, rows and the length of each value are bounded, and every text goes through the template's
//! escaping like any other.

use serde_json::Value;

const DEPTH_MAX: usize = 24;
const ROWS_MAX: usize = 1_000;
const TEXT_CHARS_MAX: usize = 400;
/// A body beyond this is offered as a download; parsing it would hold up the page.
const BODY_BYTES_MAX: usize = 512 * 1024;

/// One step of drawing a tree: flat, so that a template can walk it without recursion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// A branch begins.
    Open {
        /// Its name in the parent.
        name: String,
        /// What it holds, in a word.
        sum: String,
        /// Near the root, so that it is shown open.
        near: bool,
    },
    /// A branch ends.
    Close,
    Leaf {
        /// Its name in the parent.
        name: String,
        /// `string`, `number`, `boolean` or `null`.
        kind: &'static str,
        /// The value, cut where it is long.
        value: String,
    },
    /// The rest is left out.
    Cut,
}

/// The rows of a body; none where it is not JSON or too large to draw.
pub(crate) fn rows(body: &[u8]) -> Option<Vec<Row>> {
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let value: Value = serde_json::from_slice(body).ok()?;
    let mut tree = Tree { rows: Vec::new(), full: false };
    tree.add(String::new(), &value, 0);
    Some(tree.rows)
}

struct Tree {
    rows: Vec<Row>,
    full: bool,
}

impl Tree {
    fn add(&mut self, name: String, value: &Value, depth: usize) {
        if self.full {
            return;
        }
        if self.rows.len() >= ROWS_MAX || depth > DEPTH_MAX {
            self.full = self.rows.len() >= ROWS_MAX;
            return self.rows.push(Row::Cut);
        }
        let name = cut(&name);
        match value {
            Value::Object(fields) => {
                let children = fields.iter().map(|(name, value)| (name.clone(), value));
                self.branch(name, ("field", fields.len()), children, depth);
            }
            Value::Array(items) => {
                let children = items.iter().enumerate().map(|(place, value)| (place.to_string(), value));
                self.branch(name, ("item", items.len()), children, depth);
            }
            Value::String(text) => self.leaf(name, "string", cut(text)),
            Value::Number(number) => self.leaf(name, "number", cut(&number.to_string())),
            Value::Bool(is) => self.leaf(name, "boolean", is.to_string()),
            Value::Null => self.leaf(name, "null", "null".to_owned()),
        }
    }

    fn branch<'a>(
        &mut self,
        name: String,
        (thing, count): (&str, usize),
        children: impl Iterator<Item = (String, &'a Value)>,
        depth: usize,
    ) {
        let sum = crate::dashboard::render::format::counted(i64::try_from(count).unwrap_or(i64::MAX), thing);
        self.rows.push(Row::Open { name, sum, near: depth < 3 });
        for (name, value) in children {
            self.add(name, value, depth + 1);
        }
        self.rows.push(Row::Close);
    }

    fn leaf(&mut self, name: String, kind: &'static str, value: String) {
        self.rows.push(Row::Leaf { name, kind, value });
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balanced(rows: &[Row]) -> bool {
        let opened = rows.iter().filter(|row| matches!(row, Row::Open { .. })).count();
        opened == rows.iter().filter(|row| matches!(row, Row::Close)).count()
    }

    #[test]
    fn a_body_becomes_rows() {
        let rows = rows(br#"{"id":"evt_1","n":[1,null,true]}"#).expect("JSON");
        assert!(balanced(&rows));
        assert_eq!(rows.len(), 8);
        assert_eq!(rows[1], Row::Leaf { name: "id".into(), kind: "string", value: "evt_1".into() });
    }

    #[test]
    fn what_is_no_json_has_no_rows() {
        for body in [&b"hello"[..], b"", b"\xff\xfe", b"{\"a\":"] {
            assert_eq!(rows(body), None);
        }
    }

    #[test]
    fn wide_deep_and_long_bodies_are_cut() {
        let wide = format!("[{}1]", "1,".repeat(20_000));
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let long = format!("[\"{}\"]", "é".repeat(10_000));
        for (body, rows_max) in [(wide, ROWS_MAX + 3), (deep, 2 * DEPTH_MAX + 4), (long, 3)] {
            let rows = rows(body.as_bytes()).expect("JSON");
            assert!(balanced(&rows) && rows.len() <= rows_max, "{} rows", rows.len());
        }
        assert_eq!(rows("[".repeat(100_000).as_bytes()), None, "the parser has a limit of its own");
    }
}
