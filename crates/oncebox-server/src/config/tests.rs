//! The config as people write it, right and wrong.

mod handlers;
mod secrets;

use std::collections::HashMap;
use std::io;

use proptest::prelude::*;

use super::handler::HandlerKind;
use super::*;

const DEFAULT_FILE: &str = include_str!("../../config.default.toml");
const CUSTOM_PAGE: &str = include_str!("../../../../docs/custom.md");
/// A source without a mistake.
const SOURCE: &str =
    "[[source]]\nname = 'a'\nprovider = 'github'\nsecrets = [{ value = 'It is a Secret to Everybody' }]\n";

/// Every variable that is named in upper case is set, except `UNSET` and the blank `BLANK`.
fn env(name: &str) -> Option<String> {
    match name {
        "UNSET" => None,
        "BLANK" => Some(" ".to_owned()),
        _ => Some(format!("value-of-{name}")),
    }
}

fn file(path: &Path) -> io::Result<Vec<u8>> {
    let files = HashMap::from([("good", "from a file, 16 long\n"), ("blank", "\n")]);
    let found = path.to_str().and_then(|path| files.get(path));
    found.map(|text| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn parse_with(text: &str, overrides: &Overrides) -> Result<Config, Problems> {
    Config::parse(text, "oncebox.toml", &Outside { env: &env, file: &file, overrides })
}

fn parse(text: &str) -> Result<Config, Problems> {
    parse_with(text, &Overrides::default())
}

fn good(text: &str) -> Config {
    parse(text).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

/// The problem lines of a text, without file name and count.
fn lines(text: &str) -> Vec<String> {
    let shown = parse(text).map(|_| String::new()).unwrap_or_else(|problems| problems.to_string());
    shown.lines().filter_map(|line| line.strip_prefix("oncebox.toml:")).map(str::to_owned).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(lines(text), [expected], "{text}");
}

fn uncommented(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_default_file_holds_the_defaults() {
    let (written, mut built_in) = (good(DEFAULT_FILE), good(""));
    built_in.retention.chosen = written.retention.chosen;
    assert_eq!(format!("{written:?}"), format!("{built_in:?}"));
}

#[test]
fn every_commented_setting_of_the_default_file_parses() {
    let config = good(&uncommented(DEFAULT_FILE));
    assert_eq!((config.sources.len(), config.handlers.len(), config.destinations.len()), (2, 3, 1));
    assert!(config.handlers[0].order.latest.is_some() && config.handlers[0].route.serial.is_none());
    assert!(config.handlers[1].route.serial.is_some() && !config.handlers[1].order.block_on_dead);
    assert!(matches!(config.handlers[2].kind, HandlerKind::Pull));
    let types = &config.handlers[0].route.types;
    assert!(types[0].matches("invoice.paid") && !types[0].matches("charge.paid"));
    assert_eq!(config.alerts[0].limits, alert::Limits::default());
    let crm = &config.destinations[0];
    assert_eq!((crm.retry_on.as_slice(), crm.headers.len(), crm.ordered_by_key), (&[404][..], 1, true));
}

/// Whoever adds a key to a reader adds it to the file, too: the reader itself says which keys it knows.
#[test]
fn every_key_stands_in_the_default_file() {
    let odd = "zzzzzzzzzzzz = 1";
    let handler = "[[handler]]\nname = 'h'\n";
    for section in [
        format!("[server]\n{odd}"),
        format!("[log]\n{odd}"),
        format!("[store]\n{odd}"),
        format!("[retention]\n{odd}"),
        format!("{handler}pull = true\n{odd}"),
        format!("{handler}pull = true\nretry = {{ {odd} }}"),
        format!("{handler}http = {{ url = 'https://a.example', {odd} }}"),
        format!("{handler}sql = 'select 1'\norder = {{ key = '/a', rule = 'serial', {odd} }}"),
        format!("{handler}sql = 'select 1'\nwait_for = {{ type = 't', key = '/a', on = '/b', {odd} }}"),
        format!("{handler}sql = 'select 1'\nonce_per = {{ fields = ['/a'], {odd} }}"),
        format!("[[destination]]\nname = 'd'\nurl = 'https://a.example'\n{odd}"),
        format!("[[alert]]\nurl = {{ value = 'https://a.example' }}\n{odd}"),
    ] {
        let found = lines(&section);
        let keys = found.iter().find_map(|line| line.split_once("unknown key; use one of ")).expect("the keys").1;
        let is_there = |key: &str| DEFAULT_FILE.contains(&format!("{key} = "));
        let missing: Vec<&str> = keys.split(", ").filter(|key| !is_there(key)).collect();
        assert_eq!(missing, [""; 0], "{section}");
    }
}

/// The sample that users are shown; the keys it only mentions are in the default file.
#[test]
fn the_documented_sample_parses() {
    let sample = r#"
[server]
listen = "127.0.0.1:8080"          # public: only /in/… and /healthz
admin_listen = "127.0.0.1:8081"
admin_token = { env = "ONCEBOX_ADMIN_TOKEN" }
public_url = "https://hooks.example.com"   # for schemes that sign the URL
body_limit = "1MiB"
in_flight = 1024
in_flight_bytes = "256MiB"
grace = "20s"
workers = true
trusted_proxies = 0

[store]
url = "sqlite:oncebox.db"
unsafe = true

[retention]
ledger = "30d"
payload = "14d"
force = true

[[source]]
name = "stripe"
provider = "stripe"
secrets = [{ env = "STRIPE_WEBHOOK_SECRET" }]
tolerance = "5m"
repeated_body = "hold"
retention = { ledger = "90d", payload = "3d" }
stale = "hold"

[[handler]]
name = "ledger"
sources = ["stripe"]
types = ["invoice.*"]
sql = "insert into effects (event_id) values (:event_id)"
lease = "60s"
retry = { attempts = 12, base = "5s", cap = "1h" }
concurrency = 16

[[destination]]
name = "crm"
url = "https://crm.example.com/"
headers = { authorization = { env = "CRM_TOKEN" } }
rate = "50/s"
"#;
    let config = good(sample);
    assert_eq!((config.sources.len(), config.handlers.len(), config.destinations.len()), (1, 1, 1));
    assert_eq!(config.warnings.len(), 2, "unsafe and force are worth a word: {:?}", config.warnings);
    let public_url = config.sources[0].spec().settings.get("public_url").map(|url| url.expose().to_vec());
    assert_eq!(public_url.as_deref(), Some(&b"https://hooks.example.com"[..]));
}

#[test]
fn the_database_may_be_written_as_a_secret() {
    let url =
        |text: &str| parse(text).map(|config| config.store.url.to_string()).map_err(|problems| problems.to_string());
    assert_eq!(url("[store]\nurl = { value = 'postgres://u:hunter2@h/d' }"), Ok("postgres://u:***@h/d".to_owned()));
    let problem = url("[store]\nurl = { env = 'UNSET' }").expect_err("not set");
    assert!(problem.contains("environment variable UNSET is not set"), "{problem}");
}

#[test]
fn five_mistakes_are_five_lines() {
    let text = r#"[server]
lisen = "127.0.0.1:80"
in_flight = 0
[store]
url = "mysql://u:hunter2@h/d"
[[source]]
name = "stripe"
provider = "stripe"
secrets = [
  { env = "UNSET" },
]
[[handler]]
name = "h"
sources = ["strip"]
pull = true
"#;
    assert_eq!(
        lines(text),
        [
            "2:1: server.lisen: unknown key; did you mean listen?",
            "3:1: server.in_flight: is out of range; write a value from 1 to 65536",
            "5:1: store.url: is not a database that we know; write \"sqlite:oncebox.db\" or \"postgres://user:password@host/database\"",
            "10:3: source.stripe.secrets[0]: environment variable UNSET is not set; set it, or use { file = \"…\" }",
            "14:12: handler.h.sources[0]: there is no source \"strip\"; did you mean \"stripe\"?",
        ]
    );
    let problems = parse(text).expect_err("five problems").to_string();
    assert!(problems.ends_with("\n5 problems in oncebox.toml"), "{problems}");
}

#[test]
fn sections_and_types() {
    check("[server", "1:8: unclosed table, expected `]`; correct the TOML");
    check(
        "[server]\nlisten = '127.0.0.1:9000'\nadmin_listen = '127.0.0.1:9000'",
        "3:1: server.admin_listen: 127.0.0.1:9000 is the address of both listeners; give listen and admin_listen different ports, such as 8080 and 8081",
    );
    check(
        "odd = 1",
        "1:1: odd: unknown key; use one of server, log, store, retention, telemetry, source, handler, destination, alert",
    );
    check("server = 1", "1:1: server: is a whole number; write a table");
    check("[source]\nname = 'a'", "1:2: source: is a table, not a list of tables; write [[source]]");
    check(
        "[server]\ngrace = 20",
        "2:1: server.grace: is a whole number; write a duration such as \"30s\", \"1h30m\" or \"14d\"",
    );
    check(
        "[server]\ngrace = '20'",
        "2:1: server.grace: is not a duration; write a duration such as \"30s\", \"1h30m\" or \"14d\"",
    );
    check("[server]\ngrace = '2h'", "2:1: server.grace: is out of range; write a value from \"1s\" to \"1h\"");
    check(
        "[server]\nbody_limit = '1KiB'",
        "2:1: server.body_limit: is out of range; write a value from \"64KiB\" to \"64MiB\"",
    );
    check("[server]\nin_flight = '9'", "2:1: server.in_flight: is a text; write a whole number without quotes");
    check("[server]\nin_flight = -1", "2:1: server.in_flight: is out of range; write a value from 1 to 65536");
    check("[server]\nworkers = 'no'", "2:1: server.workers: is a text; write true or false");
    check(
        "[server]\nlisten = ':80'",
        "2:1: server.listen: is not an address and port; write an address and port such as \"127.0.0.1:8080\"",
    );
    check("[log]\nformat = 'jsn'", "2:1: log.format: \"jsn\" is not a word for it; did you mean json?");
    check(
        "[store]\nsurvive = \"failover\"",
        "2:1: store.survive: an SQLite file has no standby; use Postgres, or write \"restart\"",
    );
    check(
        "[store]\nurl = \"postgres://h/d\"\nunsafe = true\nsurvive = \"failover\"",
        "4:1: store.survive: does not go with unsafe = true; remove one of them",
    );
    check(
        "[store]\nsurvive = \"failovr\"",
        "2:1: store.survive: \"failovr\" is not a word for it; did you mean failover?",
    );
    check("[store]\nwriters = 4", "2:1: store.writers: SQLite has one writer; write 1, or use Postgres");
    check("[store]\nbatch = 5000", "2:1: store.batch: is out of range; write a value from 1 to 4096");
    check(
        "[retention]\nledger = '1d'\npayload = '2d'",
        "3:1: retention.payload: is longer than ledger; write at most \"1d\"",
    );
    check(
        "[server]\n'a\\nb' = 1\n[log]",
        "2:1: server.\"a\\\\nb\": unknown key; use one of listen, admin_listen, admin_token, viewer_token, admin_hosts, public_url, body_limit, in_flight, in_flight_bytes, connections, grace, workers, trusted_proxies",
    );
}

#[test]
fn a_list_of_keys_names_each_once() {
    let found = lines(&format!("{SOURCE}mac = 'hmac-sha256'\nzzzzzzzzzz = 1"));
    assert_eq!((found.len(), found[0].matches(" body_limit").count(), found[0].matches(" mac").count()), (1, 1, 1));
}

#[test]
fn sources() {
    check(
        &SOURCE.replace("name = 'a'\n", ""),
        "1:1: source[0]: name is missing; use lower-case letters, digits, _ and -, at most 64, beginning with a letter or digit",
    );
    check(
        &SOURCE.replace("'a'", "'A/b'"),
        "2:1: source[0].name: is not a usable name; use lower-case letters, digits, _ and -, at most 64, beginning with a letter or digit",
    );
    check(&format!("{SOURCE}{SOURCE}"), "6:1: source.a.name: is the name of an earlier one; choose another name");
    check(&format!("{SOURCE}tolerence = '5m'"), "5:1: source.a.tolerence: unknown key; did you mean tolerance?");
    check(&format!("{SOURCE}secret = 'hunter2'"), "5:1: source.a.secret: unknown key; did you mean secrets?");
    check(
        &format!("{SOURCE}verify = 'none'"),
        "5:1: source.a.verify: switches verification off: anybody may send; add insecure = true if that is meant, or remove it",
    );
    let open = format!("{SOURCE}verify = 'none'\ninsecure = true\n[server]\nlisten = '0.0.0.0:80'");
    check(
        &open,
        "5:1: source.a.verify: switches verification off while 0.0.0.0:80 is reachable from other machines; add insecure_public = true if that is meant, or listen on 127.0.0.1",
    );
    let config = good(&open.replace("insecure = true", "insecure = true\ninsecure_public = true"));
    assert!(config.sources[0].spec().unverified && config.warnings.len() == 1, "{:?}", config.warnings);
    let config =
        good(&format!("[retention]\nledger = '3d'\n{SOURCE}verify_token = 'x'\nretention = {{ ledger = '2d' }}"));
    let retention = &config.sources[0].retention;
    assert_eq!((retention.ledger.as_secs(), retention.payload.as_secs()), (172_800, 172_800));
    assert!(config.sources[0].spec().settings.contains_key("verify_token"));
}

#[test]
fn a_ledger_outlives_the_senders_retries() {
    let adyen = "[[source]]\nname = 'adyen'\nprovider = 'adyen-standard'\nsecrets = [{ value = '00c0ffee' }]\n";
    let days = |text: &str| good(text).sources[0].retention.ledger.as_secs() / 86_400;
    assert_eq!(days(adyen), 60, "our own default gives way");
    assert_eq!(days(&format!("{adyen}retention = {{ ledger = '60d' }}")), 60);
    assert_eq!(days(&format!("[retention]\nledger = '60d'\n{adyen}")), 60);
    assert_eq!(days(&format!("[retention]\nledger = '1d'\nforce = true\n{adyen}")), 1);
    assert_eq!(
        days(&format!("{adyen}retry_window = '3d'\nretention = {{ ledger = '6d' }}")),
        6,
        "who knows better says so"
    );
    assert_eq!(
        days(&format!("{adyen}retry_window = '2d12h'\nretention = {{ ledger = '5d' }}")),
        5,
        "a description has the words for time that the rest of the file has"
    );
    let refused = |place: &str, kept: &str| {
        format!(
            "{place}: the ledger forgets after {kept}, the sender may retry for 30d; keep it for \"60d\", or set force = \
             true in [retention]"
        )
    };
    check(&format!("[retention]\nledger = '30d'\n{adyen}"), &refused("3:1: source.adyen", "30d"));
    check(&format!("{adyen}retention = {{ ledger = '59d' }}"), &refused("5:1: source.adyen.retention", "59d"));
    let both = format!(
        "[retention]\nledger = '59d'\n{adyen}[[source]]\nname = 'gone'\nprovider = 'github'\nsecrets = [{{ value = 's' }}]\n"
    );
    check(&both, &refused("3:1: source.adyen", "59d"));
}

#[test]
fn the_examples_of_the_custom_page_are_right() {
    let blocks: Vec<&str> =
        CUSTOM_PAGE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4);
    blocks.iter().for_each(|block| assert_eq!(good(block).sources.len(), 1, "{block}"));
}

#[test]
fn the_command_line_wins_and_is_checked_as_well() {
    let open = Overrides { admin_listen: Some(([0, 0, 0, 0], 81).into()), ..Overrides::default() };
    let problems = parse_with("", &open).expect_err("no token").to_string();
    assert!(problems.contains("0.0.0.0:81 is reachable from other machines and needs a token"), "{problems}");
    let blank = Overrides { admin_token: Some(oncebox_verify::Secret::new(" ")), ..open.clone() };
    assert!(parse_with("", &blank).is_err(), "a blank token counts as none");
    let token = Some(oncebox_verify::Secret::new("0123456789abcdef"));
    let closed = Overrides { admin_token: token, ..open };
    let config = parse_with("[server]\nadmin_token = { env = 'UNSET' }", &closed).expect("a token");
    assert_eq!(config.server.admin_listen.port(), 81);
}

#[test]
fn operators_need_no_secrets_of_sources() {
    let text = "[store]\nurl = 'sqlite:x.db'\n[[source]]\nsecrets = [{ env = 'UNSET' }]";
    let overrides = Overrides::default();
    let reach = Reach::parse(text, "f", &Outside { env: &env, file: &file, overrides: &overrides });
    assert_eq!(reach.expect("a reach").store.expect("a store").url.to_string(), "sqlite:x.db");
}

#[test]
fn a_command_that_asks_the_server_needs_no_secrets_of_the_server() {
    let text = "[server]\nadmin_listen = '127.0.0.1:99'\nadmin_token = { env = 'UNSET' }\nviewer_token = { file = 'gone' }\n\
                [store]\nurl = { env = 'UNSET' }\nsecret_key = { env = 'UNSET' }";
    let overrides = Overrides::default();
    let reach = |text: &str| Reach::parse(text, "f", &Outside { env: &env, file: &file, overrides: &overrides });
    let found = reach(text).expect("a reach");
    assert_eq!((found.server.admin_listen.port(), found.server.admin_token.is_some()), (99, false));
    let problems = found.store.expect_err("nobody knows the database").to_string();
    assert!(problems.contains("store.url: environment variable UNSET is not set"), "{problems}");
    assert!(reach("[server]\nadmin_listen = 'nowhere'").is_err(), "where the server is must be known");
}

/// Texts that reach deep into the reader: real keys with values of any kind.
fn almost_config() -> impl Strategy<Value = String> {
    let heads = ["[server]", "[store]", "[retention]", "[[source]]", "[[handler]]", "[[destination]]", "[log]", ""];
    let keys: Vec<String> = uncommented(DEFAULT_FILE)
        .lines()
        .filter_map(|line| line.split_once(" = ").map(|(key, _)| key.to_owned()))
        .filter(|key| !key.starts_with('#'))
        .collect();
    let values =
        ["1", "-1", "1.5", "true", "''", "'x'", "[]", "[1]", "['a']", "{}", "{ env = 'A' }", "{ key = 1 }", "'9s'"];
    let line = (proptest::sample::select(keys), proptest::sample::select(values.to_vec()));
    let section = (proptest::sample::select(heads.to_vec()), proptest::collection::vec(line, 0..6));
    proptest::collection::vec(section, 0..5).prop_map(|sections| {
        let mut text = String::new();
        for (head, lines) in sections {
            text.push_str(head);
            text.extend(lines.iter().map(|(key, value)| format!("\n{key} = {value}")));
            text.push('\n');
        }
        text
    })
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn misplaced_settings_never_panic(text in almost_config()) {
        let _ = parse(&text);
    }

    #[test]
    fn a_secret_never_shows(secret in "[a-z0-9]{12,24}", place in 0..9usize, mistake in "[ -~]{0,12}") {
        let secret = format!("zq{secret}");
        let line = match place {
            0 => format!("admin_token = '{secret}'"),
            1 => format!("admin_token = ['{secret}']"),
            2 => format!("admin_token = {{ value = '{secret}', env = 'UNSET' }}"),
            3 => format!("admin_token = {{ valeu = '{secret}' }}"),
            4 => format!("admin_token = {{ value = '{secret}' }}\ngrace = 1"),
            5 => format!("admin_token = {{ env = '{secret}=' }}"),
            6 => format!("public_url = 'https://u:{secret}@h'"),
            7 => format!("[store]\nurl = 'postgres://u:{secret}@ h'"),
            _ => format!("[[source]]\nname = 'a'\nprovider = 'github'\nsecrets = [{{ value = '{secret}' }}]\nverify_token = ['{secret}']"),
        };
        let text = format!("[server]\n{line}\n{mistake}\n");
        let shown = match parse(&text) {
            Ok(config) => format!("{config:?}"),
            Err(problems) => format!("{problems} {problems:?}"),
        };
        prop_assert!(!shown.contains(&secret), "{}", shown);
    }
}
