//! The manual's SQL runs as it stands: every block of docs/sql.md, in order, with psql's variables filled in.

use std::collections::HashMap;

use testkit::{Backend, Session};

use crate::store_contract::deliveries::processing;

const MANUAL: &str = include_str!("../../../../../docs/sql.md");

#[test]
fn every_block_of_the_manual_runs() {
    testkit::database::run(Backend::Postgres, async |db| {
        let world = processing(db).await;
        world.insert((0..6).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let session = Session::open(world.db.url()).await;
        let mut variables = HashMap::new();
        for block in blocks(MANUAL) {
            let (asked, rest) = block.rsplit_once("\\gset").map_or((None, block), |(ask, rest)| (Some(ask), rest));
            // A block may keep several rows; each belongs to what follows it.
            for part in asked.into_iter().flat_map(|asked| asked.split("\\gset")) {
                let (before, ask) = part.rsplit_once(";\n\n").unwrap_or(("", part));
                session.query(&filled(before, &variables)).await.unwrap();
                variables = row(&session, ask).await;
            }
            session.query(&filled(rest, &variables)).await.unwrap();
        }
        let done = world.query("select count(*) from {deliveries} where handler = 'billing' and state = 'done'");
        assert_eq!((done, world.count("outbox"), world.count("remembered")), (vec![vec!["2".to_owned()]], 1, 2));
        assert_eq!(world.db.count("orders"), 4);
    });
}

/// What stands between the fences of SQL.
fn blocks(text: &str) -> Vec<&str> {
    text.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// A claim's row by the names of its columns.
async fn row(session: &Session, ask: &str) -> HashMap<&'static str, String> {
    let names =
        ["delivery", "token", "key", "source", "event_id", "type", "body", "attempt", "received_at", "lease_until"];
    let rows = session.query(ask).await.unwrap();
    names.into_iter().zip(rows[0].clone()).collect()
}

fn filled(sql: &str, variables: &HashMap<&str, String>) -> String {
    variables
        .iter()
        .fold(sql.to_owned(), |sql, (name, value)| sql.replace(&format!(":'{name}'"), &format!("'{value}'")))
}
