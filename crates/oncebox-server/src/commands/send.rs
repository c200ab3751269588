//! `oncebox send`: signed sample events, or deliberately bad ones, and what became of them.

mod client;
mod requests;
mod tally;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context as _;
use oncebox_verify::{Secret, Source};
use percent_encoding::percent_encode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cli::send::SendArgs;
use crate::cli::values::Setting;
use crate::config::store::StoreUrl;
use crate::dev::secrets::{DevSecrets, verify_token_name};
use crate::dev::{agreed, by_form, provider_args, shell_word, wants_verify_token};
use crate::http::UNRESERVED;
use crate::operator::is_found_here;
use crate::terminal::{self, Progress};
use crate::usage::wrong_usage;
use client::{Answer, Client};
use requests::{Plan, Requests};
use tally::Tally;
pub(crate) use target::Target;

/// Where `dev` keeps its events unless told otherwise.
const DATABASE_HERE: &str = "oncebox.db";

/// `dev` has no source and no secret for a sender that it knows nothing about.
const UNDESCRIBED: &str = "custom is nobody's events by itself: describe it with --set and give --secret, such as \
     --set mac=hmac-sha256 --set 'msg={body}' --set 'sig={ header = [\"x-signature\"] }' --set id=json:/id --secret SECRET";

pub(crate) async fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    if args.id.is_some() && args.count > 1 {
        return Err(wrong_usage("--id names one event; leave --count out, or repeat it with --copies"));
    }
    let target = match &args.url {
        Some(url) => Target::as_it_is(url, &args.provider)?,
        None => Target::parse(args.to.as_deref(), &args.provider)?,
    };
    let Signer { source, path_token, secret_from } = signer(args, &target)?;
    let signs_time = source.signs_time();
    let path = match &path_token {
        Some(token) => format!("{}/{}", target.path_and_query(), path_part(token)),
        None => target.path_and_query(),
    };
    let requests = Requests::new(source, path, plan(args));
    if (args.tamper || args.age.is_some()) && requests.are_taken(path_token.as_ref().map(path_part).as_deref()) {
        eprintln!("note: {}", why_taken(args, signs_time));
    }
    let started = Instant::now();
    let tally = deliver(requests, &target, args).await?;
    let elapsed = started.elapsed();
    terminal::show(args.json, &tally.as_json(&args.provider, &target.shown(), elapsed), || {
        let text = tally.as_text(&args.provider, &target.shown(), elapsed);
        let next = tally.next_command(&target.source, &reach(args, &target));
        [text].into_iter().chain(next).collect::<Vec<_>>().join("\n")
    })?;
    let meant_well = !args.tamper && args.age.is_none();
    if meant_well && tally.rejected > 0 && tally.stored() == 0 {
        eprintln!("error: nothing was accepted; it was signed with {secret_from}: is it the secret of that source?");
    }
    Ok(if tally.is_as_meant(meant_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the next command reaches the server that this one sent to; nothing where it finds it by itself.
fn reach(args: &SendArgs, target: &Target) -> String {
    let here = StoreUrl::Sqlite(PathBuf::from(DATABASE_HERE));
    let beside = args.database.as_ref().or_else(|| args.secret.is_none().then_some(&here));
    let is_found = || target.is_default() || target.local().is_some_and(is_found_here);
    match beside.filter(|url| !url.has_password()) {
        _ if args.database.is_none() && is_found() => String::new(),
        Some(url) => format!(" --database {}", shell_word(&url.to_string())),
        // Where its admin listener is, nothing here tells.
        None => " --admin-url URL".to_owned(),
    }
}

/// The secret that `dev` made beside this database, or the one in the current folder.
pub(crate) fn development_secret(database: Option<&StoreUrl>, provider: &str) -> anyhow::Result<Secret> {
    Ok(found_secret(database, provider)?.0)
}

/// A development secret and the file it is in.
fn found_secret(database: Option<&StoreUrl>, provider: &str) -> anyhow::Result<(Secret, PathBuf)> {
    let here = StoreUrl::Sqlite(PathBuf::from(DATABASE_HERE));
    let found = DevSecrets::find(database.unwrap_or(&here)).context("cannot read the development secrets")?;
    let secret = found.as_ref().and_then(|secrets| Some((secrets.get(provider)?.clone(), secrets.path.clone())));
    secret.ok_or_else(|| {
        wrong_usage(format!(
            "there is no development secret for {provider} beside {}; run `oncebox dev` first (in the same folder), \
             name its database with --database, or give --secret",
            database.unwrap_or(&here)
        ))
    })
}

struct Signer {
    source: Source,
    /// The token in its URL, where it has one of `dev`'s.
    path_token: Option<Secret>,
    /// Where its secret is from, for people; never the secret.
    secret_from: String,
}

fn signer(args: &SendArgs, target: &Target) -> anyhow::Result<Signer> {
    let mut settings = args.settings.clone();
    if wants_verify_token(&args.provider) && settings.iter().all(|setting| setting.name != "verify_token") {
        let token = development_secret(args.database.as_ref(), &verify_token_name(&args.provider)).ok();
        settings.extend(token.map(|value| Setting { name: "verify_token".to_owned(), value }));
    }
    // What `dev` gave its own source, unless the command line says otherwise.
    for (name, value) in
        oncebox_verify::sample_settings(&args.provider).iter().copied().chain([("public_url", target.base.as_str())])
    {
        if settings.iter().all(|setting| setting.name != name) {
            settings.push(Setting { name: name.to_owned(), value: Secret::new(value) });
        }
    }
    // An unknown provider is refused before its secret is looked for.
    let mut spec = provider_args::spec(&target.source, &args.provider, Vec::new(), &settings)?;
    let given = [(&args.secret, "--secret"), (&args.secret_file, "--secret-file"), (&args.secret_env, "--secret-env")];
    let given = given.into_iter().find_map(|(secret, option)| Some((secret.clone()?, option)));
    let (secret, secret_from) = match given {
        Some((secret, option)) => (secret, format!("the secret from {option}")),
        None if args.provider == "custom" => return Err(wrong_usage(UNDESCRIBED)),
        None => {
            let (secret, file) = found_secret(args.database.as_ref(), &args.provider)?;
            (secret, format!("the development secret for {} in {}", args.provider, file.display()))
        }
    };
    for (name, value) in agreed(&args.provider) {
        spec.settings.entry(name).or_insert(value);
    }
    let (secrets, path_token) = by_form(&spec.description, secret);
    spec.secrets = secrets;
    spec.path_token = spec.path_token.or_else(|| path_token.clone());
    let source = Source::build(spec).map_err(|wrong| provider_args::refuse(&args.provider, &wrong.problems))?;
    Ok(Signer { source, path_token, secret_from })
}

/// Why a request that was meant to be bad is good.
fn why_taken(args: &SendArgs, signs_time: bool) -> String {
    let provider = &args.provider;
    match (args.tamper, args.age) {
        (true, _) => format!(
            "what {provider} sends as proof does not cover the body, so --tamper is accepted by design; \
             see `oncebox providers {provider}`"
        ),
        (false, _) if !signs_time => format!("{provider} signs no time, so --age changes nothing"),
        (false, _) => format!("{provider} is believed for longer than that, so --age is accepted; try a longer one"),
    }
}

/// A token as a part of a path.
fn path_part(token: &Secret) -> String {
    percent_encode(token.expose(), UNRESERVED).to_string()
}

fn plan(args: &SendArgs) -> Plan {
    Plan {
        id: args.id.clone(),
        event_type: args.event_type.clone(),
        events: args.count,
        copies: args.copies,
        age: args.age.unwrap_or_default(),
        tamper: args.tamper,
    }
}

/// Sends everything, so many at once, and counts the answers.
async fn deliver(requests: Requests, target: &Target, args: &SendArgs) -> anyhow::Result<Tally> {
    let total = args.count.saturating_mul(args.copies);
    let client = Client::new(target.url.clone())?;
    let requests = Arc::new(Mutex::new(requests));
    let (answers, mut incoming) = mpsc::channel(256);
    let mut senders = JoinSet::new();
    for _ in 0..args.concurrency.min(total) {
        let (client, requests, answers) = (client.clone(), requests.clone(), answers.clone());
        senders.spawn(async move {
            while let Some(request) = take(&requests) {
                let answer = match request {
                    Ok(request) => Ok(client.post(&request).await),
                    Err(refusal) => Err(refusal),
                };
                if answers.send(answer).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(answers);
    let (mut tally, mut progress) = (Tally::default(), Progress::new(total, "requests"));
    while let Some(answer) = incoming.recv().await {
        match answer? {
            Answer::Unreachable(error) if tally.sent == 0 => {
                let shown = target.shown();
                return Err(
                    anyhow::Error::new(error).context(format!("{shown} cannot be reached; is `oncebox dev` running?"))
                );
            }
            answer => tally.add(answer),
        }
        progress.step();
    }
    Ok(tally)
}

fn take(requests: &Mutex<Requests>) -> Option<anyhow::Result<Arc<oncebox_verify::Request>>> {
    requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next()
}
