//! `oncebox check` and the handlers' SQL: asked of the database where it is there, never run.

use serde_json::json;
use testkit::program::Program;
use testkit::{Backend, TestDatabase, contract, free_port};

use crate::inbox::wait_for;
use crate::{BIN, oncebox, oncebox_json};

const HANDLERS: &str = "[[handler]]\nname = \"first\"\nsql = \"\"\"\ninsert into effects (event_id) values (:event_id);\n\
    insert into nowhere values (:key);\nselect no_such_column from effects\"\"\"\n\
    [[handler]]\nname = \"second\"\nsql = 'selec 1'\n\
    [[handler]]\nname = \"third\"\nsql = 'create table later (id text); insert into later values (:key)'\n";

fn config(url: &str) -> String {
    let (public, admin) = (free_port(), free_port());
    format!(
        "[server]\nlisten = \"127.0.0.1:{public}\"\nadmin_listen = \"127.0.0.1:{admin}\"\n[store]\nurl = \"{url}\"\n{HANDLERS}"
    )
}

contract! {
    async fn what_the_database_refuses_is_told_at_once(db: TestDatabase) {
        let folder = tempfile::tempdir().expect("a folder");
        db.execute("create table effects (event_id text)");
        std::fs::write(folder.path().join("oncebox.toml"), config(db.url())).expect("written");
        let stderr = oncebox(folder.path(), &["check"], 2).stderr;
        let lines: Vec<&str> = stderr.lines().filter(|line| line.starts_with("oncebox.toml:")).collect();
        let expected = [("8:1: handler.first.sql: ", "nowhere"), ("8:1: handler.first.sql: ", "no_such_column"), ("14:1: handler.second.sql: ", "selec")];
        assert_eq!(lines.len(), expected.len(), "{stderr}");
        for (place, word) in expected {
            let told = lines.iter().any(|line| line.contains(place) && line.contains(word));
            assert!(told, "{place} {word} is not in:\n{stderr}");
        }
        assert!(stderr.contains("3 problems in oncebox.toml"), "{stderr}");
        assert_eq!(db.count("effects"), 0);
        let tables = match db.backend() {
            Backend::Sqlite => "select count(*) from sqlite_master where type = 'table'",
            Backend::Postgres => "select count(*) from pg_class where relkind = 'r' and relnamespace = to_regnamespace('public')",
        };
        assert_eq!(db.query(tables), [["1"]], "check changes nothing");

        let program = Program::serve(BIN, &config(db.url()));
        // The start warns.
        for word in ["handler.first.sql", "nowhere", "handler.second.sql"] {
            wait_for(|| program.log().contains(word));
        }
    }
}

contract! {
    async fn what_the_file_and_what_the_database_refuse_are_one_list(db: TestDatabase) {
        let folder = tempfile::tempdir().expect("a folder");
        db.execute("create table effects (event_id text)");
        let wrong = "[[handler]]\nname = \"no name\"\nsql = 'insert into nowhere values (:key)'\n\
            [[handler]]\nname = \"bound\"\nsql = \"\"\"insert into nowhere\nvalues (:event_idd)\"\"\"\n\
            [[destination]]\nname = \"crm\"\nurl = \"http://169.254.169.254/\"\nrat = '1/s'\n";
        let text = config(db.url()).replace(HANDLERS, wrong);
        std::fs::write(folder.path().join("oncebox.toml"), text).expect("written");
        let stderr = oncebox(folder.path(), &["check"], 2).stderr;
        for expected in [
            "oncebox.toml:7:1: handler[0].name: ",
            "oncebox.toml:8:1: handler[0].sql: ",
            "oncebox.toml:11:1: handler.bound.sql: :event_idd in line 2, column 9 of the SQL cannot be bound; did you mean :event_id?",
            "oncebox.toml:15:1: destination.crm.url: leads to a link-local or cloud-metadata address",
            "oncebox.toml:16:1: destination.crm.rat: unknown key; did you mean rate?",
            "5 problems in oncebox.toml",
        ] {
            assert!(stderr.contains(expected), "{expected} is not in:\n{stderr}");
        }
        assert!(stderr.contains("nowhere") && !stderr.contains("syntax"), "{stderr}");
    }
}

#[test]
fn a_database_that_is_not_known_is_not_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = config("mysql://u:canary-password@host/d");
    std::fs::write(folder.path().join("oncebox.toml"), text).expect("written");
    let output = oncebox(folder.path(), &["check"], 2);
    assert!(output.stderr.contains("store.url has to be right first"), "{output:?}");
    assert!(output.stderr.contains("1 problem in oncebox.toml") && !output.stderr.contains("canary"), "{output:?}");
}

#[test]
fn a_database_that_is_not_there_is_not_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = format!("postgres://u:canary-password@127.0.0.1:{}/d", free_port());
    for (url, reason) in
        [("sqlite:none.db", "there is no database sqlite:none.db yet"), (&nobody, "cannot open the database")]
    {
        let text = config(url).replace("'selec 1'", "'select 1'");
        std::fs::write(folder.path().join("oncebox.toml"), text).expect("written");
        let output = oncebox(folder.path(), &["check"], 0);
        assert!(output.stderr.contains("the database was not asked") && output.stderr.contains(reason), "{output:?}");
        assert!(output.stdout.starts_with("ok: ") && !output.stderr.contains("canary"), "{output:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1);
}

#[test]
fn scripts_get_the_problems_as_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |text: &str| std::fs::write(folder.path().join("oncebox.toml"), text).expect("written");
    let problems = |status: i32| {
        let found = oncebox_json(folder.path(), &["check", "--json"], status);
        found["problems"].as_array().expect("a list").clone()
    };
    assert_eq!(problems(2)[0]["message"], "does not exist");
    write("[server]\nlisen = 1\n[[source]]\nname = 'a'\nprovider = 'stripe'\n");
    let found = problems(2);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        found[0],
        json!({
            "place": "oncebox.toml:2:1", "line": 2, "column": 1, "key": "server.lisen", "message": "unknown key",
            "cure": "did you mean listen?",
        })
    );
    assert_eq!((&found[1]["key"], &found[1]["line"]), (&json!("source.a.secrets"), &json!(3)));
    write("[server\n");
    assert_eq!(problems(2).len(), 1);
    write("[server]\nlisten = '127.0.0.1:9000'\n");
    assert!(problems(0).is_empty());
}
