//! Compiles a description and an operator's secrets into a [`Scheme`], or says everything that is wrong with them.
//!
//! Whatever would weaken a source is refused here and not at the first request: a blank secret, a digest without the
//! secret in it, a time that nothing signs, a URL that is signed but not known.

use std::collections::BTreeMap;

use super::{Scheme, SignedTime};
use crate::Problem;
use crate::provider::SourceSpec;
use crate::provider::description::describe::{CarriedAt, Required, SignatureLocation, Time, TimeAt};
use crate::provider::scheme::address::Address;
use crate::provider::scheme::mac::{Key, Mac};
use crate::provider::scheme::place::{Place, Wants};
use crate::provider::scheme::template::Template;
use crate::provider::scheme::timestamp::Window;
use crate::secret::Secret;

impl Scheme {
    /// Compiles a spec; adds what is wrong to `problems`.
    pub(crate) fn compile(spec: &SourceSpec, problems: &mut Vec<Problem>) -> Option<Self> {
        let description = &spec.description;
        let Some(mac) = description.mac else {
            if spec.path_token.is_none() {
                problems.push(problem(
                    "mac",
                    "nothing says how requests are signed",
                    "add mac, sig and msg, or a path_token",
                ));
            }
            return None;
        };
        if mac == Mac::Nothing {
            problems.push(problem(
                "path_token",
                "this sender signs nothing, so its URL needs a token",
                "add path_token = { env = \"NAME\" }, and no secrets",
            ));
            return None;
        }
        let template = template(spec, mac, problems);
        let keys = keys(spec, mac, &spec.secrets, "secrets", problems);
        let mut carriers = Vec::new();
        match main_carrier(spec, mac) {
            Some(carrier) => carriers.push((carrier, keys)),
            None => {
                problems.push(problem("sig", "nothing says where the signature is", "add sig = { header = [\"…\"] }"))
            }
        }
        carriers.extend(second_carrier(spec, mac, problems));
        let time = description.ts.as_ref().and_then(|time| signed_time(spec, time, &template, problems));
        let address = if template.needs_url() { Address::of(spec, problems) } else { None };
        let require = required(spec, problems);
        let wants = Wants::new(wanted(&template, &carriers, time.as_ref()).collect::<Vec<_>>());
        Some(Self { mac, enc: description.enc, carriers, template, time, require, wants, address })
    }
}

fn problem(key: &str, message: &str, cure: &str) -> Problem {
    Problem { key: key.to_owned(), message: message.to_owned(), cure: cure.to_owned() }
}

fn template(spec: &SourceSpec, mac: Mac, problems: &mut Vec<Problem>) -> Template {
    let empty = Template::default();
    let template = spec.description.msg.clone();
    if mac.is_token() {
        return empty;
    }
    if template.is_none() {
        problems.push(problem("msg", "nothing says what is signed", "add msg, for example msg = \"{body}\""));
    }
    let template = template.unwrap_or(empty);
    if matches!(mac, Mac::Sha1 | Mac::Sha256) && !template.as_str().is_empty() {
        if !template.covers_secret() {
            problems.push(problem("msg", "a plain digest without the secret proves nothing", "add {secret} to msg"));
        } else if !template.ends_with_secret() {
            let message = "whoever knows a plain digest can add to what comes behind the secret and sign that, too";
            problems.push(problem("msg", message, "put {secret} last in msg, or use an hmac if the sender offers one"));
        }
    }
    if template.covers_time() && spec.description.ts.is_none() {
        problems.push(problem(
            "ts",
            "msg holds {ts} but nothing says where the time is",
            "add ts = { header = [\"…\"] }",
        ));
    }
    template
}

fn keys(spec: &SourceSpec, mac: Mac, secrets: &[Secret], name: &str, problems: &mut Vec<Problem>) -> Vec<Key> {
    let second = spec.description.sig2.as_ref().and_then(|carrier| carrier.setting.as_ref());
    let has_other_key = second.is_some_and(|name| present(&spec.settings, name).is_some());
    if secrets.is_empty() && spec.path_token.is_none() && !has_other_key && !spec.description.brings_secret() {
        problems.push(problem(name, "there is no secret", "add secrets = [{ env = \"NAME\" }]"));
    }
    let mut keys = Vec::new();
    for (index, secret) in secrets.iter().enumerate() {
        let key = format!("{name}[{index}]");
        if secret.is_blank() {
            problems.push(problem(
                &key,
                "the secret is empty",
                "copy it from the vendor; an empty one would let anybody in",
            ));
        } else {
            match Key::new(mac, spec.description.key, secret) {
                Some(ready) => keys.push(ready),
                None => problems.push(problem(
                    &key,
                    "the secret does not have the form this provider uses",
                    "copy it again in full, and check the key setting (utf8, hex, base64, whsec)",
                )),
            }
        }
    }
    keys
}

fn main_carrier(spec: &SourceSpec, mac: Mac) -> Option<SignatureLocation> {
    let authorization = || SignatureLocation::in_headers(vec!["authorization".to_owned()]);
    spec.description.sig.clone().or_else(|| (mac == Mac::Basic).then(authorization))
}

/// The second carrier, where it shares the secrets or its own key is given.
fn second_carrier(spec: &SourceSpec, mac: Mac, problems: &mut Vec<Problem>) -> Option<(SignatureLocation, Vec<Key>)> {
    let carrier = spec.description.sig2.clone()?;
    let mac = carrier.mac.unwrap_or(mac);
    let keys = match &carrier.setting {
        Some(name) => keys(spec, mac, &[spec.settings.get(name)?.clone()], name, problems),
        None => keys(spec, mac, &spec.secrets, "secrets", &mut Vec::new()),
    };
    Some((carrier, keys))
}

fn signed_time(spec: &SourceSpec, time: &Time, template: &Template, problems: &mut Vec<Problem>) -> Option<SignedTime> {
    let is_signed = match &time.at {
        TimeAt::Item(_) | TimeAt::Position(_) => template.covers_time(),
        TimeAt::Header(part) => template.covers_time() || part.places().iter().all(|place| template.covers(place)),
        TimeAt::Json(part) => template.covers_body() || part.places().iter().all(|place| template.covers(place)),
    };
    if !is_signed {
        let message = "this time is not part of what is signed, so anybody could change it";
        problems.push(problem("ts", message, "add {ts} to msg, or remove ts"));
        return None;
    }
    let (past, future) = match spec.tolerance {
        Some(tolerance) => (seconds(tolerance.as_secs()), seconds(tolerance.as_secs())),
        None => (i64::from(time.past), i64::from(time.future)),
    };
    Some(SignedTime { at: time.at.clone(), unit: time.unit, window: Window { past, future } })
}

fn seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn required(spec: &SourceSpec, problems: &mut Vec<Problem>) -> Vec<(http::HeaderName, Secret)> {
    let fixed =
        spec.description.require_value.iter().map(|(name, value)| (name.clone(), Secret::new(value.as_bytes())));
    let mut required: Vec<_> = fixed.collect();
    for Required { header, setting, optional } in &spec.description.require {
        match present(&spec.settings, setting) {
            Some(value) => required.push((header.clone(), value.clone())),
            None if *optional => {}
            None => problems.push(problem(setting, "this provider needs this setting", "add it to the source")),
        }
    }
    required
}

fn present<'s>(settings: &'s BTreeMap<String, Secret>, name: &str) -> Option<&'s Secret> {
    settings.get(name).filter(|value| !value.is_blank())
}

/// Every place the scheme reads, so that the request is scanned once.
fn wanted<'s>(
    template: &'s Template,
    carriers: &'s [(SignatureLocation, Vec<Key>)],
    time: Option<&'s SignedTime>,
) -> impl Iterator<Item = &'s Place> {
    let carried = carriers.iter().filter_map(|(carrier, _)| match &carrier.at {
        CarriedAt::Place(place) => Some(place),
        CarriedAt::Headers(_) | CarriedAt::Every(..) => None,
    });
    let timed = time.into_iter().flat_map(|time| match &time.at {
        TimeAt::Json(part) => part.places(),
        _ => &[],
    });
    template.places().chain(carried).chain(timed)
}
