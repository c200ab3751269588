//! Names of sources, handlers and destinations. A source's name is a part of its URL, so it is the strictest.

use super::reader::Table;

const LEN_MAX: usize = 64;

/// Takes the name of a source: lower-case letters, digits, `_` and `-`.
pub(crate) fn source<'a>(table: &mut Table<'a>) -> Option<&'a str> {
    let strict = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    take(table, strict, b"_-", "use lower-case letters, digits, _ and -, at most 64, beginning with a letter or digit")
}

/// Takes the name of a handler or destination: letters, digits, `_`, `-` and `.`.
pub(crate) fn other<'a>(table: &mut Table<'a>) -> Option<&'a str> {
    let cure = "use letters, digits, _, - and ., at most 64, beginning with a letter or digit";
    take(table, |b| b.is_ascii_alphanumeric(), b"_-.", cure)
}

/// Reports every entry whose name an earlier one has.
pub(crate) fn refuse_twins(tables: &[Table<'_>]) {
    let mut seen: Vec<&str> = Vec::new();
    for table in tables {
        let Some(item) = table.peek("name") else { continue };
        let Some(name) = item.value.get_ref().as_str() else { continue };
        if seen.contains(&name) {
            item.problem("is the name of an earlier one", "choose another name");
        }
        seen.push(name);
    }
}

fn take<'a>(table: &mut Table<'a>, start: impl Fn(u8) -> bool, inside: &[u8], cure: &str) -> Option<&'a str> {
    let item = table.required("name", cure)?;
    let name = item.text()?;
    let first = name.bytes().next().is_some_and(&start);
    if first && name.len() <= LEN_MAX && name.bytes().all(|b| start(b) || inside.contains(&b)) {
        return Some(name);
    }
    item.problem("is not a usable name", cure);
    None
}
