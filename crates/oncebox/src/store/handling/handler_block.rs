//! A handler's statements as one block that Postgres runs for each event of a batch. Pure.
//!
//! Only for statements that write and answer nothing, which is what handlers are mostly made of: there the block means
//! the same as the statements one by one. The values travel beside it, each as the text of an array.

use std::fmt::Write as _;

use crate::database::template::Template;
use crate::limits::CHUNK_DELIVERIES_MAX;
use crate::store::handling::handler_sql::{Bind, Prepared};
use crate::store::{Claimed, Value};

const TEMPLATE: Template<4> =
    Template::new(include_str!("../../../sql/postgres/each.sql"), ["{quote}", "{chunk}", "{arrays}", "{statements}"]);
/// Values that travel in one message; more are sent one by one.
const BYTES_MAX: usize = 1024 * 1024;

/// The block, and how its values are handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Loop {
    pub(in crate::store) block: String,
    /// Hands over the number of events, then the values of each bind.
    pub(in crate::store) hand_over: String,
    binds: Vec<Bind>,
}

impl Loop {
    /// `looped`: the text of each statement with its values taken from the arrays.
    pub(in crate::store) fn new(statements: &[Prepared], looped: &[String]) -> Self {
        let mut binds: Vec<Bind> = Vec::new();
        for bind in statements.iter().flat_map(|statement| &statement.binds) {
            if !binds.contains(bind) {
                binds.push(*bind);
            }
        }
        let array = |bind: &Bind| {
            let (name, kind) = (bind.name(), bind.array_type());
            format!("oncebox_{name} CONSTANT {kind} := current_setting('oncebox.{name}');\n    ")
        };
        // Not the values themselves, which would all be sent back.
        let mut hand_over = "SELECT set_config('oncebox.count', $1, true) IS NULL".to_owned();
        for (bind, number) in binds.iter().zip(2..) {
            let _ = write!(hand_over, ", set_config('oncebox.{}', ${number}, true) IS NULL", bind.name());
        }
        // A line of its own each, for the sake of comments at their ends.
        let statements: String = looped.iter().map(|text| format!("{text}\n;\n")).collect();
        let mut quote = "$oncebox$".to_owned();
        while statements.contains(&quote) {
            quote.insert(1, '_');
        }
        let arrays: String = binds.iter().map(array).collect();
        let block = TEMPLATE.fill([&quote, &CHUNK_DELIVERIES_MAX.to_string(), arrays.trim_end(), &statements]);
        Self { block, hand_over, binds }
    }

    /// The values of a batch; none where they are too many for this way, or one of them cannot be had.
    pub(in crate::store) fn values(&self, batch: &[&Claimed]) -> Option<Vec<String>> {
        let mut values = vec![batch.len().to_string()];
        for bind in &self.binds {
            let mut array = "{".to_owned();
            for (nth, claimed) in batch.iter().enumerate() {
                if nth > 0 {
                    array.push(',');
                }
                // A body that is too large is not even copied.
                let binds_body = matches!(bind, Bind::Body | Bind::BodyBytes);
                if binds_body && array.len() + claimed.body.len() > BYTES_MAX {
                    return None;
                }
                push(&mut array, &bind.value(claimed).ok()?);
            }
            array.push('}');
            values.push(array);
        }
        (values.iter().map(String::len).sum::<usize>() <= BYTES_MAX).then_some(values)
    }
}

/// Adds a value as an element of an array's text.
fn push(array: &mut String, value: &Value) {
    // Writing to a string cannot fail.
    let _ = match value {
        Value::Int(number) => write!(array, "{number}"),
        Value::Text(text) => write!(array, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Value::Bytes(bytes) => {
            array.push_str("\"\\\\x");
            bytes.iter().try_for_each(|byte| write!(array, "{byte:02x}")).and_then(|()| array.write_char('"'))
        }
        Value::Key(key) => write!(array, "{key}"),
        Value::Null => write!(array, "NULL"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Dialect, HandlerSql};

    #[test]
    fn values_are_elements_of_an_array() {
        for (value, expected) in [
            (Value::Int(-7), "-7"),
            (Value::Text(r#"a "b" \ {c}, NULL"#.into()), r#""a \"b\" \\ {c}, NULL""#),
            (Value::Text(String::new()), r#""""#),
            (Value::Bytes(vec![0, 255]), r#""\\x00ff""#),
        ] {
            let mut array = String::new();
            push(&mut array, &value);
            assert_eq!(array, expected);
        }
    }

    #[test]
    fn only_what_writes_and_answers_nothing_is_looped() {
        for (sql, expected) in [
            ("insert into t values (:event_id)", true),
            ("INSERT INTO t VALUES (:key); update t set a = :attempt -- x", true),
            ("delete from t where id = :event_id", true),
            ("insert into t values (1) returning id", false),
            ("select 1", false),
            ("with a as (select 1) insert into t select * from a", false),
            ("insert into t select set_config('a', 'b', false)", false),
        ] {
            let parsed = HandlerSql::parse(sql, Dialect::Postgres).unwrap();
            assert_eq!(parsed.looped.is_some(), expected, "{sql}");
        }
        assert!(HandlerSql::parse("insert into t values (:key)", Dialect::Sqlite).unwrap().looped.is_none());
    }

    #[test]
    fn the_block_takes_its_values_from_the_arrays_and_quotes_with_care() {
        let sql = "insert into t values (:event_id, '$1 $oncebox$'); delete from u where at = :received_at and id = :event_id";
        let looped = HandlerSql::parse(sql, Dialect::Postgres).unwrap().looped.unwrap();
        for part in [
            "DO $_oncebox$\n",
            "insert into t values ((oncebox_event_id[oncebox_n]::text), '$1 $oncebox$')\n;",
            "at = to_timestamp(oncebox_received_at[oncebox_n]::bigint / 1000.0)",
            "oncebox_received_at CONSTANT bigint[] := current_setting('oncebox.received_at');",
        ] {
            assert!(looped.block.contains(part), "{part} in {}", looped.block);
        }
        assert_eq!(
            looped.hand_over,
            "SELECT set_config('oncebox.count', $1, true) IS NULL, set_config('oncebox.event_id', $2, true) IS NULL, \
             set_config('oncebox.received_at', $3, true) IS NULL"
        );
    }
}
