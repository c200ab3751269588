//! `[[source]]`: one configured sender.
//!
//! Our own keys are read here; every other key is a setting of the provider or a part of its description, which the
//! library judges. Its problems come back with a key, and get the place of that key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oncebox::gateway::outgoing::AddressRange;
use oncebox::gateway::retention::Window;
use oncebox_verify::{Description, OnRepeat, Problem, SETTINGS, Secret, Source, SourceSpec};
use serde::Deserialize as _;
use toml::de::{DeValue, ValueDeserializer};

use super::reader::{Item, Scope, Table};
use super::retention::RetentionConfig;
use super::secrets::public_development_key;
use super::server::{BODY_BYTES_MAX, BODY_BYTES_MIN, ServerConfig};
use super::{name, suggest, web};

const SECRETS_MAX: usize = 16;
/// In the catalogue this key tells people which secret to copy; in a source it would be a slip for `secrets`, and taking
/// it as a description would put the secret itself among the things we print.
const NOT_FOR_SOURCES: &str = "secret";
/// Stands in for a name that cannot be used, so that the rest of the source can be judged.
const UNNAMED: &str = "source";
const TOLERANCE_MAX: Duration = Duration::from_secs(7 * 86_400);

#[derive(Clone, Debug)]
pub(crate) struct SourceConfig {
    pub(crate) source: Arc<Source>,
    /// How long its identities and payloads are kept.
    pub(crate) retention: Window,
    /// Where its requests come from; anywhere when empty.
    pub(crate) allow_from: Vec<AddressRange>,
}

impl SourceConfig {
    pub(crate) fn spec(&self) -> &SourceSpec {
        self.source.spec()
    }

    /// Reads one entry; none where name or provider are unusable. What else is wrong is told all the same.
    pub(crate) fn read(mut table: Table<'_>, server: &ServerConfig, retention: &RetentionConfig) -> Option<Self> {
        let all = table.clone();
        let name = name::source(&mut table);
        let provider = read_provider(&mut table);
        // What is older than the ledger's memory may be new or not: nobody can tell.
        let holds_stale = table.word("stale", &[("hold", true), ("run", false)]).unwrap_or(true);
        let retention_table = table.section("retention");
        let allow_from = web::ranges(&mut table, "allow_from", "203.0.113.0/24");
        let path_token = table.path_token("path_token");
        let verify = read_verify(&mut table, server);
        let (positions, secrets): (Vec<usize>, Vec<Secret>) = read_secrets(&mut table).into_iter().unzip();
        let mut spec = SourceSpec {
            name: name.unwrap_or(UNNAMED).to_owned(),
            provider: provider.as_ref().map(|(slug, _)| (*slug).to_owned()).unwrap_or_default(),
            description: provider.as_ref().map(|(_, description)| description.clone()).unwrap_or_default(),
            secrets,
            settings: read_settings(&mut table, server),
            tolerance: table.duration("tolerance", Duration::from_secs(1)..=TOLERANCE_MAX),
            repeated_body: table.word("repeated_body", &REPEATED_BODY),
            unverified: verify == Verify::Nothing,
            path_token,
            body_bytes_max: table.size("body_limit", BODY_BYTES_MIN..=BODY_BYTES_MAX),
            stale_after: None,
        };
        describe(&mut table, &mut spec.description, &all);
        table.finish();
        check_path_token(&all, &spec, verify);
        let retention = retention.for_source(retention_table, &all.scope, spec.description.facts().retry_window);
        spec.stale_after = holds_stale.then_some(retention.ledger);
        provider?;
        let report = |problem| report(&all, &as_written(problem, &positions));
        let source = Source::build(spec).map_err(|wrong| wrong.problems.into_iter().for_each(report)).ok()?;
        name.map(|_| Self { source: Arc::new(source), retention, allow_from })
    }
}

/// A source's name and how its sender behaves, without any secret.
pub(crate) fn sender(mut table: Table<'_>) -> Option<(String, Description)> {
    let all = table.clone();
    let name = table.text("name")?.to_owned();
    let (_, mut description) = read_provider(&mut table)?;
    describe(&mut table, &mut description, &all);
    Some((name, description))
}

const REPEATED_BODY: [(&str, OnRepeat); 3] =
    [("run", OnRepeat::Run), ("hold", OnRepeat::Hold), ("duplicate", OnRepeat::Duplicate)];

fn read_provider<'a>(table: &mut Table<'a>) -> Option<(&'a str, Description)> {
    let known = oncebox_verify::provider_names();
    let all = known.join(", ");
    let item = table.required("provider", &format!("write one of {all}"))?;
    let slug = item.text()?;
    let found = Description::named(slug);
    if found.is_none() {
        let cure = match suggest::nearest(slug, known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("choose one of {all}; \"custom\" takes a description of your own"),
        };
        item.problem(format!("{slug:?} is not in the catalogue"), cure);
    }
    found.map(|description| (slug, description))
}

/// The secrets that could be read, each with its place in the list.
fn read_secrets(table: &mut Table<'_>) -> Vec<(usize, Secret)> {
    let Some(item) = table.take("secrets") else { return Vec::new() };
    let list = item.list().unwrap_or_default();
    if list.len() > SECRETS_MAX {
        item.problem(format!("holds more than {SECRETS_MAX} secrets"), "remove those that are no longer used");
    }
    let known = public_development_key();
    let read = |(position, item): (usize, &Item<'_>)| {
        let secret = item.secret()?;
        if secret.expose() == known.as_bytes() {
            item.problem(
                "is the development key, which everybody can read",
                "give the vendor's certificate or public key",
            );
        }
        Some((position, secret))
    };
    list.iter().enumerate().filter_map(read).collect()
}

/// The library counts the secrets it was given; people count those they wrote.
fn as_written(problem: Problem, positions: &[usize]) -> Problem {
    let index = problem.key.strip_prefix("secrets[").and_then(|rest| rest.strip_suffix(']'));
    match index.and_then(|index| positions.get(index.parse::<usize>().ok()?)) {
        Some(position) => Problem { key: format!("secrets[{position}]"), ..problem },
        None => problem,
    }
}

fn read_settings(table: &mut Table<'_>, server: &ServerConfig) -> BTreeMap<String, Secret> {
    let mut settings = BTreeMap::new();
    if let Some(url) = &server.public_url {
        settings.insert("public_url".to_owned(), Secret::new(url.as_str()));
    }
    for key in SETTINGS {
        if let Some(value) = table.take(key).and_then(|item| item.text_or_secret()) {
            settings.insert((*key).to_owned(), value);
        }
    }
    settings
}

/// What the operator wants verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verify {
    /// What the provider does.
    Provider,
    /// The token in the URL alone, though the provider signs.
    PathToken,
    Nothing,
}

/// A token in the URL in place of a signature stands in proxies' logs and at the vendor's; it takes a word of its own.
fn check_path_token(table: &Table<'_>, spec: &SourceSpec, verify: Verify) {
    let path = &table.scope.path;
    let by_token = spec.path_token.is_some() && spec.secrets.is_empty() && !spec.description.brings_secret();
    match verify {
        Verify::PathToken if spec.path_token.is_none() || !spec.secrets.is_empty() => {
            let cure = "add path_token and remove secrets, or remove verify";
            table.scope.problem("verify = \"path_token\" means the token in the URL alone", cure);
        }
        Verify::PathToken => table
            .scope
            .report
            .warn(format!("{path} takes the token in its URL for a signature: whoever sees the URL may send")),
        Verify::Provider if by_token && spec.description.signs() => {
            let what =
                "this provider signs, and without secrets nobody checks it: the token in the URL is all there is";
            table.scope.problem(what, "add secrets, or verify = \"path_token\" if that is meant");
        }
        Verify::Provider | Verify::Nothing => {}
    }
}

/// Verification is switched off by two words, and by three where strangers can reach the listener.
fn read_verify(table: &mut Table<'_>, server: &ServerConfig) -> Verify {
    let verify = table.take("verify");
    let insecure = table.flag("insecure").unwrap_or(false);
    let insecure_public = table.flag("insecure_public").unwrap_or(false);
    let Some(item) = verify else {
        if insecure || insecure_public {
            table.scope.report.warn(format!("{}: insecure means nothing without verify = \"none\"", table.scope.path));
        }
        return Verify::Provider;
    };
    match item.text() {
        Some("none") => {}
        Some("path_token") => return Verify::PathToken,
        Some(_) => {
            item.problem("can only be \"none\" or \"path_token\"", "remove it; the provider says how to verify");
            return Verify::Provider;
        }
        None => return Verify::Provider,
    }
    if !insecure {
        item.problem(
            "switches verification off: anybody may send",
            "add insecure = true if that is meant, or remove it",
        );
    } else if !server.listen.ip().is_loopback() && !insecure_public {
        let what = format!("switches verification off while {} is reachable from other machines", server.listen);
        item.problem(what, "add insecure_public = true if that is meant, or listen on 127.0.0.1");
    }
    let warning = format!("{} is insecure: it accepts events that nobody verified", table.scope.path);
    table.scope.report.warn(warning);
    Verify::Nothing
}

/// Hands the remaining keys to the description.
fn describe(table: &mut Table<'_>, description: &mut Description, all: &Table<'_>) {
    let known = |key: &str| key == "identity" || (Description::KEYS.contains(&key) && key != NOT_FOR_SOURCES);
    for key in table.keys().into_iter().filter(|key| known(key)) {
        let Some(item) = table.take(key) else { continue };
        match toml::Value::deserialize(ValueDeserializer::from(item.value.clone())) {
            Ok(value) => {
                if let Err(problem) = description.set(key, &value) {
                    report(all, &problem);
                }
            }
            Err(_) => item.problem("holds a number that is too large", "write a smaller one"),
        }
    }
    let sayable: Vec<&str> = Description::KEYS.iter().copied().filter(|key| known(key)).collect();
    table.know(&sayable);
}

/// Gives a library problem the place of its key, or of the source where the key is not written.
fn report(table: &Table<'_>, problem: &Problem) {
    let mut scope: Scope<'_> = table.scope.clone();
    scope.path = format!("{}.{}", scope.path, problem.key);
    if scope.report.mentions(&scope.path) {
        return;
    }
    let mut parts = problem.key.split(['.', '[']);
    let mut item = parts.next().and_then(|key| table.peek(key));
    while let Some(found) = item {
        scope.at = found.scope.at;
        item = parts.next().and_then(|key| match found.value.get_ref() {
            DeValue::Table(_) => found.table().and_then(|inner| inner.peek(key)),
            _ => None,
        });
    }
    scope.problem(problem.message.as_str(), problem.cure.as_str());
}
