//! What the schema consists of, read from the migrations themselves: tables, indexes, views, functions, triggers. So the
//! list of what must be there can never fall behind. Pure.

use std::collections::BTreeSet;

/// A piece of the schema: its kind, and its name without the schema's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Piece {
    pub(in crate::store) kind: String,
    pub(in crate::store) name: String,
}

pub(in crate::store) fn after<'t>(texts: impl IntoIterator<Item = &'t str>) -> BTreeSet<Piece> {
    let mut pieces = BTreeSet::new();
    for text in texts {
        text.lines().for_each(|line| apply(line, &mut pieces));
    }
    pieces
}

/// Statements of ours begin their line, and name what they make on it.
fn apply(line: &str, pieces: &mut BTreeSet<Piece>) {
    let mut words = line.split(|c: char| c.is_whitespace() || matches!(c, '(' | ';')).filter(|word| !word.is_empty());
    match words.next() {
        Some("CREATE") => {
            if let Some(piece) = named(&mut words) {
                pieces.insert(piece);
            }
        }
        Some("DROP") => {
            if let Some(gone) = named(&mut words) {
                pieces.remove(&gone);
            }
        }
        Some("ALTER") => rename(&words.collect::<Vec<_>>(), pieces),
        _ => {}
    }
}

fn named<'w>(words: &mut impl Iterator<Item = &'w str>) -> Option<Piece> {
    let kind = words.find(|word| !["UNIQUE", "OR", "REPLACE"].contains(word))?;
    if !["TABLE", "INDEX", "VIEW", "FUNCTION", "TRIGGER"].contains(&kind) {
        return None;
    }
    let name = words.find(|word| !["IF", "NOT", "EXISTS", "CONCURRENTLY"].contains(word))?;
    Some(Piece { kind: kind.to_lowercase(), name: bare(name).to_owned() })
}

fn rename(words: &[&str], pieces: &mut BTreeSet<Piece>) {
    if let ["TABLE", from, "RENAME", "TO", to] = words
        && pieces.remove(&Piece { kind: "table".to_owned(), name: bare(from).to_owned() })
    {
        pieces.insert(Piece { kind: "table".to_owned(), name: bare(to).to_owned() });
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix("oncebox.").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::migrations::{POSTGRES, SQLITE};

    fn check(sql: &str, expected: &[&str]) {
        let found = after([sql]);
        let found: Vec<String> = found.iter().map(|piece| format!("{} {}", piece.kind, piece.name)).collect();
        assert_eq!(found, expected, "{sql}");
    }

    #[test]
    fn statements() {
        check("CREATE TABLE oncebox.a (\n    key uuid\n);", &["table a"]);
        check("CREATE UNIQUE INDEX a_b ON oncebox.a (b)\n    WHERE c;", &["index a_b"]);
        check("CREATE OR REPLACE FUNCTION oncebox.f(x bigint) RETURNS", &["function f"]);
        check("CREATE TABLE oncebox.a_rest PARTITION OF oncebox.a DEFAULT;", &["table a_rest"]);
        check("CREATE VIEW oncebox.v AS\nSELECT 1;\nDROP VIEW oncebox.v;", &[]);
        check("CREATE TABLE b_new (\n);\nDROP TABLE b;\nALTER TABLE b_new RENAME TO b;", &["table b"]);
        check("ALTER TABLE oncebox.a ADD COLUMN x bigint;\nINSERT INTO a SELECT 1;", &[]);
        check("CREATE TRIGGER t INSTEAD OF INSERT ON v BEGIN", &["trigger t"]);
    }

    #[test]
    fn the_real_ones_are_found() {
        for (schema, name) in [(POSTGRES, "deliveries"), (SQLITE, "oncebox_deliveries")] {
            let pieces = after(schema.migrations.iter().map(|step| step.sql));
            let has = |kind: &str, name: &str| pieces.contains(&Piece { kind: kind.to_owned(), name: name.to_owned() });
            assert!(has("table", name) && pieces.len() > 30, "{pieces:?}");
            assert!(has("index", &format!("{name}_ready")), "{pieces:?}");
        }
    }
}
