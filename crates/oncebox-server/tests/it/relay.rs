//! The outbox of the real program, end to end: what committed is received, under one key, whatever dies in between.

mod echoed;
mod hostile;
mod kill;
mod operate;
mod receivers;
mod recovery;
mod stopped;

use testkit::receiver::Receiver;
use testkit::{Backend, TestDatabase};

use crate::world::{PATIENCE, Setup, wait_until};

/// A destination; `rest` adds to it.
fn destination(receiver: &Receiver, rest: &str) -> String {
    format!("[[destination]]\nname = \"crm\"\nurl = \"{}\"\ntimeout = \"10s\"\n{rest}\n", receiver.url())
}

const HASTY: &str = "retry = { attempts = 3, base = \"20ms\", cap = \"100ms\" }\n";

/// A config with these handlers and destinations and no others.
fn setup(db: &TestDatabase, parts: &str) -> Setup {
    let mut setup = Setup::new(db.url());
    setup.rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", parts);
    setup
}

/// The SQL by which a handler sends the event's body under a step.
fn send_sql(db: &TestDatabase, step: &str) -> String {
    match db.backend() {
        Backend::Sqlite => format!(
            "insert into oncebox_send (destination, body, delivery, step) values ('crm', :body, :delivery, '{step}')"
        ),
        Backend::Postgres => format!("select oncebox.send('crm', :body, delivery => :delivery, step => '{step}')"),
    }
}

/// Writes a message as an application does.
fn write(db: &TestDatabase, key: &str, path: &str) {
    db.execute(&match db.backend() {
        Backend::Sqlite => {
            format!(
                "insert into oncebox_send (destination, body, key, path) values ('crm', '\"{key}\"', '{key}', '{path}')"
            )
        }
        Backend::Postgres => format!("select oncebox.send('crm', '\"{key}\"'::text, key => '{key}', path => '{path}')"),
    });
}

/// Waits until every message has one of these states.
fn wait_for_messages(db: &TestDatabase, states: &[&str]) {
    let listed: Vec<String> = states.iter().map(|state| format!("'{state}'")).collect();
    let sql = format!("select count(*) from {} where state not in ({})", db.table("outbox_v1"), listed.join(", "));
    wait_until(&format!("messages are {states:?}"), PATIENCE * 3, || db.query(&sql) == [["0"]]);
}

/// Columns of the message with a given key.
fn message(db: &TestDatabase, key: &str, columns: &str) -> Vec<String> {
    let (outbox, contents) = (db.table("outbox"), db.table("outbox_contents"));
    let sql = format!("select {columns} from {outbox} join {contents} using (id) where idempotency_key = 'crm/{key}'");
    db.query(&sql).into_iter().next().unwrap_or_else(|| panic!("no message {key}"))
}
