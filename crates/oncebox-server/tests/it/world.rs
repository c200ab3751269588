//! One running server with a source of every kind, and the questions tests ask about what it stored.
//!
//! A test's own wishes go through [`Setup`]: more settings, more sources. Everything else is the same everywhere, so
//! that a test's body shows only what it is about.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use testkit::http::{self, Answer};
use testkit::program::Program;
use testkit::sender::{self, Signed};
use testkit::{Backend, TestDatabase, free_port};

/// The binary under test.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_oncebox");

pub(crate) const STRIPE: &str = "whsec_canary-stripe-4Zt1";
pub(crate) const GITHUB: &str = "canary-github-8Qw2";
pub(crate) const SHOPIFY: &str = "canary-shopify-1Lm3";
pub(crate) const SLACK: &str = "canary-slack-7Yx4";
pub(crate) const TWILIO: &str = "canary-twilio-9Po5";
pub(crate) const STANDARD: &str = "whsec_Y2FuYXJ5LXN0YW5kYXJkLTZUZzY=";
pub(crate) const SVIX: &str = "whsec_Y2FuYXJ5LXN2aXgtM0p2Ny1rZXk=";
pub(crate) const CUSTOM: &str = "canary-custom-5Hb8";
pub(crate) const TOKEN: &str = "canary-token-2Nd9";
/// All of the above: none may ever be shown.
pub(crate) const SECRETS: [&str; 9] = [STRIPE, GITHUB, SHOPIFY, SLACK, TWILIO, STANDARD, SVIX, CUSTOM, TOKEN];
/// The address that Twilio signs.
pub(crate) const TWILIO_URL: &str = "https://hooks.example.com/in/twilio";

/// How long to wait for something that must come, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const ON_ITS_OWN_TIME: [&str; 6] = ["arrivals", "nodes", "node_counts", "handlers", "destinations", "windows"];

/// A config in parts, so that a test can add to one of them.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Lines of `[server]` beside the addresses.
    pub(crate) server: String,
    /// Lines of `[store]` beside the URL.
    pub(crate) store: String,
    /// The sections that follow.
    pub(crate) rest: String,
    /// Variables in the environment.
    pub(crate) envs: Vec<(&'static str, String)>,
    url: String,
    listen: String,
    admin_listen: String,
}

impl Setup {
    /// Every kind of source and one pull handler, on this database.
    pub(crate) fn new(url: &str) -> Self {
        Self {
            server: "public_url = \"https://hooks.example.com\"\n".to_owned(),
            store: String::new(),
            rest: format!("{}[[handler]]\nname = \"pull\"\npull = true\n", sources()),
            envs: Vec::new(),
            url: url.to_owned(),
            listen: format!("127.0.0.1:{}", free_port()),
            admin_listen: format!("127.0.0.1:{}", free_port()),
        }
    }

    /// Adds a line to `[server]`.
    pub(crate) fn server(mut self, line: &str) -> Self {
        self.server.push_str(&format!("{line}\n"));
        self
    }

    /// Adds a variable to the environment.
    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.envs.push((name, value.to_owned()));
        self
    }

    /// The config file.
    pub(crate) fn text(&self) -> String {
        format!(
            "[server]\nlisten = \"{}\"\nadmin_listen = \"{}\"\n{}\n[store]\nurl = \"{}\"\n{}\n{}",
            self.listen, self.admin_listen, self.server, self.url, self.store, self.rest
        )
    }

    /// Starts the program and waits until it is ready.
    pub(crate) fn serve(&self) -> Program {
        let mut program = self.launch();
        program.wait_ready();
        program
    }

    /// Starts the program and does not wait.
    pub(crate) fn launch(&self) -> Program {
        let envs: Vec<_> = self.envs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Program::launch(BIN, &self.text(), &envs)
    }
}

/// A running server and its database.
pub(crate) struct World {
    pub(crate) program: Program,
    pub(crate) db: TestDatabase,
}

/// A row of `events_v1` with what the table knows beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) source: String,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) body_sha256: String,
    pub(crate) state: String,
    pub(crate) reason: String,
}

impl World {
    /// With every kind of source.
    pub(crate) fn start(db: TestDatabase) -> Self {
        Self::start_with(db, |setup| setup)
    }

    /// With a test's own wishes.
    pub(crate) fn start_with(db: TestDatabase, wishes: impl FnOnce(Setup) -> Setup) -> Self {
        let setup = wishes(Setup::new(db.url()));
        Self { program: setup.serve(), db }
    }

    /// Host and port of the public listener.
    pub(crate) fn addr(&self) -> &str {
        self.program.public_addr()
    }

    /// Sends to a source.
    pub(crate) fn post(&self, source: &str, signed: &Signed) -> Answer {
        signed.post(self.addr(), source)
    }

    /// Sends and expects 200 with this status; returns the key, which header and body agree on.
    #[track_caller]
    pub(crate) fn expect(&self, source: &str, signed: &Signed, status: &str) -> String {
        let answer = self.post(source, signed);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["status"], status, "{}", answer.text());
        let key = answer.header("oncebox-key").expect("an answer about an event has its key").to_owned();
        assert_eq!(answer.json()["key"], key.as_str(), "{}", answer.text());
        key
    }

    /// Sends and expects that nothing verified it.
    #[track_caller]
    pub(crate) fn expect_401(&self, source: &str, signed: &Signed) {
        let answer = self.post(source, signed);
        assert_eq!(answer.status, 401, "{signed:?}: {}", answer.text());
    }

    /// Rows by table, without what is written on its own time: arrivals are counted up to two seconds late, and what a
    /// config names is registered some time after the start or a reload.
    pub(crate) fn row_counts(&self) -> BTreeMap<String, i64> {
        let mut counts = self.db.row_counts();
        counts.retain(|table, _| !ON_ITS_OWN_TIME.contains(&table.as_str()));
        assert!(counts.contains_key("events"), "{counts:?}");
        counts
    }

    /// Does something that must leave no trace in the database.
    #[track_caller]
    pub(crate) fn expect_nothing_stored<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = self.row_counts();
        let result = act();
        assert_eq!(self.row_counts(), before, "nothing may be stored");
        result
    }

    /// Does something that must add this many events, each whole: a payload, and a delivery unless it is a conflict.
    #[track_caller]
    pub(crate) fn expect_stored<T>(&self, events: i64, deliveries: i64, act: impl FnOnce() -> T) -> T {
        let before = self.row_counts();
        let result = act();
        let after = self.row_counts();
        let added = |table: &str| after[table] - before[table];
        assert_eq!((added("events"), added("payloads"), added("deliveries")), (events, events, deliveries));
        result
    }

    /// The event of a key.
    #[track_caller]
    pub(crate) fn event(&self, key: &str) -> Event {
        let view = self.db.table("events_v1");
        let sql = format!("select source, event_id, type, body_sha256, state from {view} where key = '{key}'");
        let mut row = self.db.query(&sql).pop().unwrap_or_else(|| panic!("no event has the key {key}"));
        let reason = format!("select reason from {} where {}", self.db.table("events"), self.key_is(key));
        row.extend(self.db.query(&reason).remove(0));
        let [source, id, kind, body_sha256, state, reason] = row.try_into().expect("six columns");
        Event { source, id, kind, body_sha256, state, reason }
    }

    /// The stored bytes of an event.
    #[track_caller]
    pub(crate) fn body(&self, key: &str) -> Vec<u8> {
        let rows = self.db.query(&format!("select body from {} where {}", self.db.table("payloads"), self.key_is(key)));
        assert_eq!(rows.len(), 1, "one payload for {key}");
        HEXLOWER.decode(rows[0][0].trim_start_matches("\\x").as_bytes()).expect("bytes come as hex")
    }

    /// The states of an event's deliveries.
    pub(crate) fn deliveries(&self, key: &str) -> Vec<String> {
        let view = self.db.table("deliveries_v1");
        let rows = self.db.query(&format!("select state from {view} where key = '{key}'"));
        rows.into_iter().map(|mut row| row.remove(0)).collect()
    }

    /// How many times an event came.
    pub(crate) fn arrivals(&self, key: &str) -> i64 {
        let view = self.db.table("events_v1");
        let rows = self.db.query(&format!("select arrivals from {view} where key = '{key}'"));
        rows[0][0].parse().expect("a count")
    }

    /// Memory of the server in KiB: `VmRSS` is what it has now, `VmHWM` the most it ever had.
    pub(crate) fn memory_kib(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.program.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with(what)).expect("it has memory");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// The metrics page.
    pub(crate) fn metrics(&self) -> String {
        http::get(self.program.admin_addr(), "/metrics", &[]).text()
    }

    fn key_is(&self, key: &str) -> String {
        match self.db.backend() {
            Backend::Sqlite => format!("lower(hex(key)) = '{}'", key.replace('-', "")),
            Backend::Postgres => format!("key = '{key}'"),
        }
    }
}

/// Waits for a condition that must come true.
#[track_caller]
pub(crate) fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < deadline, "{what}: not within {deadline:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    started.elapsed()
}

/// Unix seconds.
pub(crate) fn now() -> i64 {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is past 1970");
    since_1970.as_secs().try_into().expect("seconds fit")
}

/// A Stripe event signed now; the same id has the same bytes at any time.
pub(crate) fn stripe(id: &str) -> Signed {
    let body = json!({"id": id, "object": "event", "type": "invoice.paid", "data": {"object": {"id": "in_1"}}});
    sender::stripe_bytes(STRIPE, now(), body.to_string().into_bytes())
}

/// A GitHub push with this in its body.
pub(crate) fn github(id: &str, extra: &Value) -> Signed {
    sender::github(GITHUB, id, "push", extra)
}

/// Any bytes, signed as the custom sources want.
pub(crate) fn custom(body: impl Into<Vec<u8>>) -> Signed {
    let body = body.into();
    let signature = HEXLOWER.encode(&sender::hmac_sha256(CUSTOM.as_bytes(), &[&body]));
    Signed { headers: vec![("x-signature".to_owned(), signature)], body }
}

fn sources() -> String {
    let known = [
        ("stripe", STRIPE),
        ("github", GITHUB),
        ("shopify", SHOPIFY),
        ("slack", SLACK),
        ("twilio", TWILIO),
        ("standard-webhooks", STANDARD),
        ("svix", SVIX),
    ];
    let signed = format!(
        "provider = \"custom\"\nsecrets = [{{ value = \"{CUSTOM}\" }}]\nmac = \"hmac-sha256\"\nmsg = \"{{body}}\"\n\
         sig = {{ header = [\"x-signature\"] }}\n"
    );
    let named = "id = \"json:/id\"\ntype = \"json:/type\"\n";
    let mut text = String::new();
    for (name, secret) in known {
        text.push_str(&format!(
            "[[source]]\nname = \"{name}\"\nprovider = \"{name}\"\nsecrets = [{{ value = \"{secret}\" }}]\n\n"
        ));
    }
    for (name, keys) in [
        ("custom", named.to_owned()),
        ("batch", format!("{named}each = \"/events\"\n")),
        ("digest", "identity = \"digest\"\n".to_owned()),
        ("none", "identity = \"none\"\n".to_owned()),
        ("small", format!("{named}body_limit = \"64KiB\"\n")),
        ("large", format!("{named}body_limit = \"16MiB\"\n")),
    ] {
        text.push_str(&format!("[[source]]\nname = \"{name}\"\n{signed}{keys}\n"));
    }
    text.push_str(&format!(
        "[[source]]\nname = \"token\"\nprovider = \"custom\"\nmac = \"equal\"\nsecrets = [{{ value = \"{TOKEN}\" }}]\n\
         sig = {{ header = [\"x-token\"] }}\n{named}\n"
    ));
    let open = "provider = \"custom\"\nverify = \"none\"\ninsecure = true\n";
    text.push_str(&format!("[[source]]\nname = \"open\"\n{open}{named}\n"));
    text
}
