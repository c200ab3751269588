//! `oncebox providers [NAME]`: the catalogue, or one entry in full.
//!
//! Everything shown comes from the descriptions the engine runs. `docs/providers.md` is the same text as Markdown; a
//! test fails when the file is older than the catalogue.

use std::path::PathBuf;
use std::process::ExitCode;

use oncebox_verify::Description;
use serde_json::{Value, json};

use crate::cli::operator::ProvidersArgs;
use crate::config::store::StoreUrl;
use crate::dev::secrets::DevSecrets;
use crate::query::guide;
use crate::terminal;
use crate::usage::wrong_usage;

pub(crate) fn run(args: &ProvidersArgs) -> anyhow::Result<ExitCode> {
    if args.markdown {
        terminal::print(guide::whole().trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(name) = &args.name else { return list(args.json) };
    let description = Description::named(name).ok_or_else(|| unknown(name))?;
    terminal::show(args.json, &entry(name, &description), || {
        let text = guide::entry_for_people(name, &description);
        [Some(text), development_token(name)].into_iter().flatten().collect::<Vec<_>>().join("\n")
    })
}

/// The verify token of the `dev` that was started in this folder, to be typed in at the vendor.
fn development_token(name: &str) -> Option<String> {
    let here = StoreUrl::Sqlite(PathBuf::from("oncebox.db"));
    // A file that cannot be read is `dev`'s to complain about.
    let secrets = DevSecrets::find(&here).ok()??;
    let token = String::from_utf8_lossy(secrets.verify_token(name)?.expose()).into_owned();
    Some(format!("\nFor `oncebox dev` in this folder the verify token is {token}"))
}

/// What the letters of the last column mean.
const LEGEND: &str = "sure: authentication / id / retries; S the vendor's source, D its documentation, T a third party's page, \
     M memory: check it before you rely on it";

fn list(as_json: bool) -> anyhow::Result<ExitCode> {
    let named = |name: &&'static str| Description::named(name).map(|description| (*name, description));
    let all: Vec<(&str, Description)> = oncebox_verify::provider_names().iter().filter_map(named).collect();
    let items: Vec<Value> = all.iter().map(|(name, description)| entry(name, description)).collect();
    let rows = all.iter().map(|(name, description)| {
        let facts = description.facts();
        let signature = facts.signature.split([' ', ',']).next().unwrap_or_default();
        let (identity, retries) = (terminal::shorten(&facts.identity, 48), guide::duration(facts.retry_window));
        [name, facts.title, signature, &identity, &retries, facts.confidence].map(terminal::cell)
    });
    let names = ["provider", "vendor", "signature", "an event is", "retries for", "sure"];
    terminal::show(as_json, &json!({ "items": items }), || {
        let count = terminal::counted(all.len() as u64, "provider");
        let advice = "`oncebox providers NAME` shows what to click and which secret to copy";
        format!("{}\n{LEGEND}\n{count}; {advice}", terminal::listed(names, rows))
    })
}

fn entry(name: &str, description: &Description) -> Value {
    let facts = description.facts();
    json!({
        "name": name,
        "title": facts.title,
        "setup": facts.setup,
        "secret": facts.secret_hint,
        "settings": facts.settings,
        "signature": facts.signature,
        "identity": facts.identity,
        "type": facts.event_type,
        "order": facts.order,
        "batch": facts.batch,
        "body_varies": facts.body_varies,
        "not_covered": facts.not_covered,
        "open": facts.open,
        "handshakes": facts.handshakes,
        "retry_window_seconds": facts.retry_window.map(|window| window.as_secs()),
        "deadline_seconds": facts.deadline.map(|deadline| deadline.as_secs()),
        "docs": facts.docs,
        "confidence": facts.confidence,
    })
}

/// Names the entries that look like what was asked for.
fn unknown(name: &str) -> anyhow::Error {
    let stem: String = name.to_lowercase().chars().take_while(|c| c.is_ascii_alphanumeric()).take(4).collect();
    let near: Vec<&str> =
        oncebox_verify::provider_names().into_iter().filter(|slug| !stem.is_empty() && slug.contains(&stem)).collect();
    let hint = match near.as_slice() {
        [] => "`oncebox providers` lists them; `custom` describes any other sender".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    wrong_usage(format!("there is no provider {name:?}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_near() {
        assert!(unknown("Stripe-v2").to_string().contains("did you mean stripe?"));
        assert!(unknown("nobody-knows").to_string().contains("`oncebox providers` lists them"));
    }

    #[test]
    fn every_entry_tells_what_to_do() {
        for name in oncebox_verify::provider_names() {
            let facts = entry(name, &Description::named(name).unwrap());
            for key in ["title", "setup", "secret", "signature"] {
                assert!(facts[key].as_str().is_some_and(|text| !text.is_empty()), "{name}: {key}");
            }
        }
    }
}
