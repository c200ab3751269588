//! What is bound, what is left alone, what is refused.

use proptest::prelude::*;

use super::*;

fn texts(sql: &str, dialect: Dialect) -> Result<Vec<String>, HandlerSqlError> {
    HandlerSql::parse(sql, dialect).map(|sql| sql.statements.into_iter().map(|one| one.text).collect())
}

fn unknown(bind: &str, line: usize, column: usize) -> HandlerSqlError {
    HandlerSqlError::Unknown { bind: bind.to_owned(), line, column }
}

#[test]
fn names_are_bound_outside_quotes_and_comments() {
    for (sql, expected) in [
        ("insert into t values (:event_id)", &["insert into t values (($1::text))"][..]),
        ("select :key::uuid, :key", &["select ($1::text)::uuid, ($1::text)"]),
        ("select ':key', \":key\", :type", &["select ':key', \":key\", ($1::text)"]),
        ("select 'it''s :key' -- :body\n, :attempt", &["select 'it''s :key' -- :body\n, ($1::bigint::int)"]),
        ("select E'\\':key' || :source", &["select E'\\':key' || ($1::text)"]),
        ("select '\\' || :source", &["select '\\' || ($1::text)"]),
        ("/* a /* :key; */ ; */ select 1", &["/* a /* :key; */ ; */ select 1"]),
        ("select $$ :key; $$, $a$ $$ ; $a$", &["select $$ :key; $$, $a$ $$ ; $a$"]),
        ("select a$b$, :key from c$b$", &["select a$b$, ($1::text) from c$b$"]),
        ("select x[1:n], x[:n], x::text, f(a := 1)", &["select x[1:n], x[:n], x::text, f(a := 1)"]),
        ("a :type; ; -- nothing\n ; b :body_bytes, :type;", &["a ($1::text)", "b ($1::bytea), ($2::text)"]),
        ("select :received_at", &["select to_timestamp($1::bigint / 1000.0)"]),
    ] {
        assert_eq!(
            texts(sql, Dialect::Postgres).as_deref(),
            Ok(&expected.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..]),
            "{sql}"
        );
    }
    for (sql, expected) in [
        ("insert into t values (:event_id, :body, :event_id)", "insert into t values (?1, ?2, ?1)"),
        ("select [a;:key], `:key;`, :key", "select [a;:key], `:key;`, ?1"),
        ("/* /* */ select :source", "/* /* */ select ?1"),
    ] {
        assert_eq!(texts(sql, Dialect::Sqlite), Ok(vec![expected.to_owned()]), "{sql}");
    }
}

#[test]
fn what_cannot_be_used_is_refused() {
    use HandlerSqlError::{Empty, Open, Session, Transaction};
    for (sql, dialect, expected) in [
        ("", Dialect::Sqlite, Empty),
        (" ; -- x", Dialect::Postgres, Empty),
        ("select 'a", Dialect::Postgres, Open("a quote")),
        ("select /* /* */", Dialect::Postgres, Open("a comment")),
        ("select $x$ $y$", Dialect::Postgres, Open("a dollar quote")),
        ("select 1; COMMIT", Dialect::Postgres, Transaction("COMMIT".into())),
        ("/* x */ rollback", Dialect::Sqlite, Transaction("ROLLBACK".into())),
        ("deallocate all", Dialect::Postgres, Session("DEALLOCATE".into())),
        ("select 1; discard plans", Dialect::Postgres, Session("DISCARD".into())),
        ("listen x", Dialect::Postgres, Session("LISTEN".into())),
        ("unlisten *", Dialect::Postgres, Session("UNLISTEN".into())),
        ("select $1", Dialect::Postgres, unknown("$1", 1, 8)),
        ("select ?", Dialect::Sqlite, unknown("?", 1, 8)),
        ("select :evnt", Dialect::Sqlite, unknown(":evnt", 1, 8)),
        ("select 'ü',\n  ':a', :evnt", Dialect::Postgres, unknown(":evnt", 2, 9)),
        ("select x[f(:evnt)]", Dialect::Postgres, unknown(":evnt", 1, 12)),
    ] {
        assert_eq!(HandlerSql::parse(sql, dialect), Err(expected), "{sql}");
    }
}

#[test]
fn everything_wrong_is_told_at_once() {
    use HandlerSqlError::{Open, Transaction};
    let check = |sql: &str, dialect, expected: &[HandlerSqlError]| {
        assert_eq!(HandlerSql::problems(sql, dialect), expected, "{sql}");
    };
    check(
        "select :evnt, :evnt; commit; select ?, :bdy, 'a",
        Dialect::Sqlite,
        &[
            unknown(":evnt", 1, 8),
            Transaction("COMMIT".into()),
            unknown("?", 1, 37),
            unknown(":bdy", 1, 40),
            Open("a quote"),
        ],
    );
    check("begin; select $1", Dialect::Postgres, &[Transaction("BEGIN".into()), unknown("$1", 1, 15)]);
    check("select :key", Dialect::Sqlite, &[]);
}

#[test]
fn what_follows_a_change_of_the_schema_is_not_prepared() {
    let check = |sql: &str, expected: usize| {
        let sql = HandlerSql::parse(sql, Dialect::Sqlite).expect("statements");
        assert_eq!(sql.preparable().count(), expected, "{sql:?}");
    };
    check("insert into a values (1); select 2", 2);
    check("select 1; create table if not exists a (b); insert into a values (1)", 1);
    check("/* x */ Create table a (b)", 0);
}

#[test]
fn what_may_outlive_the_transaction_is_known() {
    for (sql, expected) in [
        ("insert into t values (:key); UPDATE t SET a = 1", false),
        ("with a as (select 1) select 'set_config' from a -- set_config", false),
        ("set local work_mem = '1MB'", true),
        ("select 1; reset all", true),
        ("select pg_catalog.Set_Config('a.b', :key, false)", true),
        ("select pg_advisory_lock(1)", true),
        ("select * into temp t from u", true),
        ("call f(:key)", true),
    ] {
        let parsed = HandlerSql::parse(sql, Dialect::Postgres).map(|sql| sql.leaves_traces);
        assert_eq!(parsed, Ok(expected), "{sql}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(sql in "[a-z:;'\"$/*\\-\\[\\]`\\\\ é\n]{0,60}") {
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let _ = HandlerSql::parse(&sql, dialect);
        }
    }

    #[test]
    fn quoted_text_is_kept_as_it_is(inside in "[a-z:; $\\-/*]{0,40}") {
        let sql = format!("select '{inside}'");
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            prop_assert_eq!(texts(&sql, dialect), Ok(vec![sql.clone()]));
        }
    }
}

#[test]
fn who_binds_the_body_is_known() {
    for (sql, expected) in [
        ("insert into t values (:event_id, ':body') -- :body", false),
        ("insert into t values (:body)", true),
        ("delete from t where id = :key; update t set a = :body_bytes", true),
    ] {
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            assert_eq!(HandlerSql::parse(sql, dialect).unwrap().binds_body(), expected, "{sql}");
        }
    }
}
