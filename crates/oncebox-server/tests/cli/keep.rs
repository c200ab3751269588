//! Looking after a database: `backup`, `check --database`, `erase`, and every command of the backup guide.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

use serde_json::json;
use testkit::program::{Program, run};
use testkit::{Backend, TestDatabase, contract, free_port, sender};

use crate::{BIN, oncebox, oncebox_json};

const SECRET: &str = "whsec_canary-keep";

fn serve(url: &str) -> Program {
    let (public, admin) = (free_port(), free_port());
    Program::serve(
        BIN,
        &format!(
            "[server]\nlisten = \"127.0.0.1:{public}\"\nadmin_listen = \"127.0.0.1:{admin}\"\n[store]\nurl = \"{url}\"\n\
             [[source]]\nname = \"stripe\"\nprovider = \"stripe\"\nsecrets = [{{ value = \"{SECRET}\" }}]\n\
             [[handler]]\nname = \"ledger\"\npull = true\n"
        ),
    )
}

/// Sends one event, always in the same bytes, and says what the answer was: accepted, duplicate.
fn send(program: &Program, id: &str) -> String {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is past 1970").as_secs();
    let body = json!({"id": id, "object": "event", "type": "invoice.paid"}).to_string();
    let signed = sender::stripe_bytes(SECRET, since_1970.try_into().expect("seconds fit"), body.into_bytes());
    let answer = signed.post(program.public_addr(), "stripe");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["status"].as_str().expect("a status").to_owned()
}

fn stop(program: &mut Program) {
    program.signal(libc::SIGTERM);
    assert!(program.wait_exit(Duration::from_secs(30)).success());
}

contract! {
    async fn check_looks_a_database_over(db: TestDatabase) {
        let program = serve(db.url());
        let folder = program.dir();
        send(&program, "evt_1");
        let config = ["check", "--config", "oncebox.toml"];
        assert!(oncebox(folder, &config, 0).stdout.starts_with("ok: "), "without --database only the config");
        let found = oncebox_json(folder, &["check", "--database", "--json"], 0);
        assert_eq!((&found["ok"], &found["wrong"]), (&json!(true), &json!(0)), "{found}");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let text = oncebox(elsewhere.path(), &["check", "--database", db.url(), "--full"], 0).stdout;
        assert!(text.contains("nothing wrong was found") && text.contains("deliveries"), "{text}");
        db.execute(&format!("update {} set state = 'claimed'", db.table("deliveries")));
        let text = oncebox(elsewhere.path(), &["check", "--database", db.url(), "--sample", "5"], 1).stdout;
        assert!(text.contains("delivery claimed without a lease") && text.contains("1 thing wrong"), "{text}");
        assert_eq!(fs::read_dir(elsewhere.path()).expect("the folder").count(), 0);
    }

    async fn a_subject_is_erased(db: TestDatabase) {
        let program = serve(db.url());
        let folder = program.dir().to_owned();
        for n in 0..3 {
            send(&program, &format!("evt_{n}"));
        }
        let ways = [vec!["--admin-url".to_owned(), program.admin_url()], vec!["--database".to_owned(), db.url().to_owned()]];
        let act = |way: usize, args: &[&str], status: i32| {
            let way: Vec<&str> = ways[way].iter().map(String::as_str).collect();
            let output = oncebox(&folder, &[&["erase"], args, &way].concat(), status);
            output.stdout + &output.stderr
        };
        let by_value = ["--source", "stripe", "--pointer", "/id", "--value", "evt_1"];
        assert!(act(0, &[&by_value[..], &["--dry-run"]].concat(), 0).contains("1 event, 1 of their deliveries and messages not done yet, would be erased"));
        assert!(act(1, &by_value, 2).contains("add --yes"));
        let erase = [&by_value[..], &["--yes", "--action-id", "e1"]].concat();
        assert!(act(1, &erase, 0).contains("1 event erased (action e1)"));
        assert!(act(0, &erase, 0).contains("already done: 1 event erased"));
        assert!(act(0, &["--key", "stripe/evt_0", "--yes"], 0).contains("1 event erased"));
        assert!(act(0, &["--key", "stripe/none", "--yes"], 1).contains("there is no event"));
        assert!(act(0, &["--source", "strip", "--pointer", "/id", "--value", "x", "--yes"], 2).contains("strip"));
        assert_eq!((db.count(&db.table("payloads")), db.count(&db.table("ledger"))), (1, 3));
        assert_eq!(send(&program, "evt_1"), "duplicate", "still known");
        let log = db.query(&format!("select filter from {}", db.table("actions"))).concat().join("\n");
        assert!(log.contains("value_mark") && !log.contains("evt_1"), "{log}");
        oncebox(&folder, &["check", "--database", db.url(), "--full"], 0);
    }
}

#[test]
fn a_backup_is_whole_or_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    // Enough that a copy takes longer than it takes to kill it.
    let fill = ["bench", "--database", "sqlite:oncebox.db", "--seconds", "2", "--body-size", "8KiB"];
    oncebox(here, &fill, 0);
    let backup = ["backup", "--to", "backup.db", "--database", "sqlite:oncebox.db"];
    let kills = env::var("ONCEBOX_TEST_KILLS").map_or(15, |kills| kills.parse().expect("a number"));
    for number in 0..kills {
        let mut child = Command::new(BIN).args(backup).arg("--force").current_dir(here).spawn().expect("it starts");
        thread::sleep(Duration::from_millis(number * 11 % 160));
        child.kill().expect("killed");
        child.wait().expect("ended");
        if here.join("backup.db").exists() {
            oncebox(here, &["check", "--database", "sqlite:backup.db", "--full"], 0);
        }
    }
    oncebox(here, &[&backup[..], &["--force"]].concat(), 0);
    assert!(!here.join("backup.db.part").exists());
    assert!(oncebox(here, &backup, 1).stderr.contains("is there already"));
    let rows = |file: &str| oncebox_json(here, &["status", "--database", file, "--json"], 0)["ledger_rows"].clone();
    assert_eq!(rows("sqlite:backup.db"), rows("sqlite:oncebox.db"));
    oncebox(here, &["check", "--database", "sqlite:oncebox.db", "--full"], 0);
    let missing = ["backup", "--to", "x.db", "--database", "sqlite:none.db"];
    assert!(oncebox(here, &missing, 1).stderr.contains("there is no database"));
    assert!(!here.join("none.db").exists());
}

#[test]
fn postgres_has_its_own_tools() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let folder = tempfile::tempdir().expect("a folder");
    oncebox(folder.path(), &["migrate", "--database", db.url()], 0);
    let said = oncebox(folder.path(), &["backup", "--to", "x.db", "--database", db.url()], 2).stderr;
    assert!(said.contains("pg_dump") && said.contains("docs/backup.md"), "{said}");
}

#[test]
fn the_guide_for_sqlite_is_true() {
    let [backup, restore, after] = commands("## SQLite").try_into().expect("three blocks of commands");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("oncebox.db");
    let url = format!("sqlite:{}", file.display());
    let mut program = serve(&url);
    send(&program, "before");
    shell(folder.path(), &backup, &[]);
    send(&program, "since");
    stop(&mut program);
    shell(folder.path(), &restore, &[]);
    program.restart();
    assert_eq!(send(&program, "before"), "duplicate", "what the copy knows is still refused");
    assert_eq!(send(&program, "since"), "accepted", "what came since is taken when it is resent");
    shell(folder.path(), &after, &[]);
}

#[test]
fn the_guide_for_postgres_is_true() {
    let [backup, restore] = commands("## Postgres").try_into().expect("two blocks of commands");
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute("drop database if exists oncebox_restored");
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = serve(db.url());
    send(&program, "before");
    let name = db.url().rsplit('/').next().expect("a name");
    let restored = db.url().replace(name, "oncebox_restored");
    let envs = [("DATABASE_URL", db.url()), ("RESTORED_URL", restored.as_str())];
    shell(folder.path(), &backup, &envs);
    send(&program, "since");
    stop(&mut program);
    shell(folder.path(), &restore, &envs);
    let again = serve(&restored);
    assert_eq!(send(&again, "before"), "duplicate", "what the copy knows is still refused");
    assert_eq!(send(&again, "since"), "accepted", "what came since is taken when it is resent");
    drop(again);
    db.execute("drop database oncebox_restored with (force)");
}

/// The blocks of commands in a section of the guide.
fn commands(section: &str) -> Vec<String> {
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backup.md")).expect("the guide");
    let rest = &guide[guide.find(&format!("{section}\n")).expect("the section")..];
    let end = rest[3..].find("\n## ").map_or(rest.len(), |at| at + 3);
    rest[..end].split("```sh\n").skip(1).filter_map(|block| block.split("```").next()).map(str::to_owned).collect()
}

/// Runs commands as a person would, with this build of the program and the tools of the tests' Postgres.
fn shell(folder: &Path, script: &str, envs: &[(&str, &str)]) {
    let program = Path::new(BIN).parent().expect("a folder");
    let tools = testkit::postgres::programs().expect("Postgres is installed");
    let path = env::join_paths(
        [program, &tools]
            .into_iter()
            .map(Path::to_owned)
            .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    let path = path.expect("a path").into_string().expect("text");
    let envs: Vec<(&str, &str)> = envs.iter().copied().chain([("PATH", path.as_str())]).collect();
    let output = run("/bin/sh", &["-ec", script], &envs, folder);
    assert_eq!(output.status, Some(0), "{script}\nsaid:\n{}{}", output.stdout, output.stderr);
}
