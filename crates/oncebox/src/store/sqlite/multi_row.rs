//! One INSERT for several rows.
//!
//! Most of what a small INSERT costs is paid for each run of the statement, not for each row: opening the indexes, and
//! building the list behind every `CHECK (… IN (…))`. So rows go many to a statement, and the few behind them in smaller
//! statements, down to one.

use rusqlite::{CachedStatement, Connection, ToSql};

/// Rows of one statement, from many to one.
const SIZES: [usize; 3] = [16, 4, 1];

/// An INSERT, written out for every size.
pub(in crate::store) struct Insert([String; SIZES.len()]);

/// The values of a statement while they are bound.
pub(in crate::store) struct Values<'s, 'c> {
    statement: &'s mut CachedStatement<'c>,
    bound: usize,
}

impl Insert {
    /// Takes a statement that inserts one row.
    pub(in crate::store) fn of(one_row: &str) -> Self {
        Self(SIZES.map(|rows| for_rows(one_row, rows)))
    }

    /// Inserts all rows, and tells for each statement which rows it had and how many of them are new.
    pub(in crate::store) fn run<T>(
        &self,
        connection: &Connection,
        mut rows: &[T],
        bind: impl Fn(&T, &mut Values<'_, '_>) -> rusqlite::Result<()>,
        mut tell: impl FnMut(&[T], usize) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        for (size, sql) in SIZES.into_iter().zip(&self.0).filter(|(size, _)| *size <= rows.len()) {
            let mut statement = connection.prepare_cached(sql)?;
            while let Some((now, later)) = rows.split_at_checked(size) {
                let mut values = Values { statement: &mut statement, bound: 0 };
                now.iter().try_for_each(|row| bind(row, &mut values))?;
                let inserted = statement.raw_execute()?;
                tell(now, inserted)?;
                rows = later;
            }
        }
        Ok(())
    }
}

impl Values<'_, '_> {
    pub(in crate::store) fn bind(&mut self, value: impl ToSql) -> rusqlite::Result<()> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value)
    }
}

fn for_rows(one_row: &str, rows: usize) -> String {
    let (head, rest) = one_row.split_once("VALUES (").expect("an INSERT of values");
    let (values, tail) = rest.split_once(')').expect("values that end");
    let row = format!("({})", vec!["?"; values.split(',').count()].join(", "));
    format!("{head}VALUES {}{tail}", vec![row; rows].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_written_out() {
        let one = "INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT (a) DO NOTHING";
        assert_eq!(for_rows(one, 1), "INSERT INTO t (a, b) VALUES (?, ?) ON CONFLICT (a) DO NOTHING");
        assert_eq!(for_rows(one, 3), "INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?) ON CONFLICT (a) DO NOTHING");
    }

    #[test]
    #[should_panic(expected = "an INSERT of values")]
    fn a_statement_that_inserts_no_values_is_refused() {
        let _ = Insert::of("INSERT INTO t (a) SELECT 1");
    }

    #[test]
    fn rows_of_any_number_arrive_in_their_order() {
        let connection = Connection::open_in_memory().unwrap();
        let insert = Insert::of("INSERT INTO t (a) VALUES (?1) ON CONFLICT (a) DO NOTHING");
        for count in 0..50_i64 {
            connection.execute_batch("DROP TABLE IF EXISTS t; CREATE TABLE t (a INTEGER PRIMARY KEY)").unwrap();
            connection.execute("INSERT INTO t (a) VALUES (7)", []).unwrap();
            let rows: Vec<i64> = (0..count).collect();
            let (mut told, mut new) = (Vec::new(), 0);
            let tell = |now: &[i64], inserted| {
                told.extend_from_slice(now);
                new += inserted;
                Ok(())
            };
            insert.run(&connection, &rows, |row, values| values.bind(row), tell).unwrap();
            assert_eq!(told, rows);
            assert_eq!(new, rows.len() - usize::from(count > 7));
        }
    }
}
