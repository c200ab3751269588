//! Compiles a description and an operator's secrets into a [`Scheme`], or says everything that is wrong with them.
//!
//! Whatever would weaken a source is refused here and not at the first request: a blank secret, a digest without the
//! secret in it, a time that nothing signs, a URL that is signed but not known.

use super::Scheme;
use crate::provider::description::describe::{CarriedAt, Required, SignatureLocation, Time, TimeAt};
use crate::provider::scheme::template::Piece;
use crate::provider::scheme::{Address, Key, Mac, Place, Template, Wants};
use crate::provider::{Compiling, Description};
use crate::secret::Secret;

impl Scheme {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Self> {
        let description = &compiling.spec.description;
        let Some(mac) = description.mac else {
            if compiling.spec.path_token.is_none() {
                compiling.problem(
                    "mac",
                    "nothing says how requests are signed",
                    "add mac, sig and msg, or a path_token",
                );
            }
            return None;
        };
        if mac == Mac::Nothing {
            compiling.problem(
                "path_token",
                "this sender signs nothing, so its URL needs a token",
                "add path_token = { env = \"NAME\" }, and no secrets",
            );
            return None;
        }
        let template = template(compiling, mac);
        let keys = keys(compiling, mac, &compiling.spec.secrets, "secrets");
        let mut carriers = Vec::new();
        match main_carrier(description, mac) {
            Some(carrier) => carriers.push((carrier, keys)),
            None => compiling.problem("sig", "nothing says where the signature is", "add sig = { header = [\"…\"] }"),
        }
        carriers.extend(second_carrier(compiling, mac));
        let time = description.ts.as_ref().and_then(|time| signed_time(compiling, time, &template));
        let address = if template.needs_url() { Address::of(compiling) } else { None };
        let require = required(compiling);
        let wants = Wants::new(wanted(&template, &carriers, time.as_ref()));
        Some(Self { mac, enc: description.enc, carriers, template, time, require, wants, address })
    }
}

fn template(compiling: &mut Compiling<'_>, mac: Mac) -> Template {
    let description = &compiling.spec.description;
    let empty = Template::default();
    let template = description.msg.clone();
    if mac.is_token() {
        return empty;
    }
    if template.is_none() {
        compiling.problem("msg", "nothing says what is signed", "add msg, for example msg = \"{body}\"");
    }
    let template = template.unwrap_or(empty);
    if matches!(mac, Mac::Sha1 | Mac::Sha256) && !template.source.is_empty() {
        if !template.holds(&Piece::Secret) {
            compiling.problem("msg", "a plain digest without the secret proves nothing", "add {secret} to msg");
        } else if !template.ends_with_secret() {
            let message = "whoever knows a plain digest can add to what comes behind the secret and sign that, too";
            compiling.problem("msg", message, "put {secret} last in msg, or use an hmac if the sender offers one");
        }
    }
    if template.holds(&Piece::Time) && description.ts.is_none() {
        compiling.problem("ts", "msg holds {ts} but nothing says where the time is", "add ts = { header = [\"…\"] }");
    }
    template
}

fn keys(compiling: &mut Compiling<'_>, mac: Mac, secrets: &[Secret], name: &str) -> Vec<Key> {
    let description = &compiling.spec.description;
    let second = description.sig2.as_ref().and_then(|carrier| carrier.setting.as_ref());
    let has_other_key = second.is_some_and(|name| compiling.setting(name).is_some());
    let needs_none = compiling.spec.path_token.is_some() || has_other_key || description.brings_secret();
    if secrets.is_empty() && !needs_none {
        compiling.no_secret(name);
    }
    let cure = "copy it again in full, and check the key setting (utf8, hex, base64, whsec)";
    compiling.keys_of(name, secrets, cure, |secret| Key::new(mac, description.key, secret))
}

fn main_carrier(description: &Description, mac: Mac) -> Option<SignatureLocation> {
    let authorization = || SignatureLocation::in_headers(vec!["authorization".to_owned()]);
    description.sig.clone().or_else(|| (mac == Mac::Basic).then(authorization))
}

/// The second carrier, where it shares the secrets or its own key is given.
fn second_carrier(compiling: &mut Compiling<'_>, mac: Mac) -> Option<(SignatureLocation, Vec<Key>)> {
    let spec = compiling.spec;
    let carrier = spec.description.sig2.clone()?;
    let mac = carrier.mac.unwrap_or(mac);
    let keys = match &carrier.setting {
        Some(name) => keys(compiling, mac, &[spec.settings.get(name)?.clone()], name),
        None => keys(&mut Compiling::new(spec), mac, &spec.secrets, "secrets"),
    };
    Some((carrier, keys))
}

fn signed_time(compiling: &mut Compiling<'_>, time: &Time, template: &Template) -> Option<Time> {
    let is_signed = match &time.at {
        TimeAt::Item(_) | TimeAt::Position(_) => template.holds(&Piece::Time),
        TimeAt::Header(part) => {
            template.holds(&Piece::Time) || part.places().iter().all(|place| template.covers(place))
        }
        TimeAt::Json(part) => template.holds(&Piece::Body) || part.places().iter().all(|place| template.covers(place)),
    };
    if !is_signed {
        let message = "this time is not part of what is signed, so anybody could change it";
        compiling.problem("ts", message, "add {ts} to msg, or remove ts");
        return None;
    }
    let window = compiling.window(time.window.past, time.window.future);
    Some(Time { window, ..time.clone() })
}

fn required(compiling: &mut Compiling<'_>) -> Vec<(http::HeaderName, Secret)> {
    let description = &compiling.spec.description;
    let fixed = description.require_value.iter().map(|(name, value)| (name.clone(), Secret::new(value.as_bytes())));
    let mut required: Vec<_> = fixed.collect();
    for Required { header, setting, optional } in &description.require {
        let value = if *optional { compiling.setting(setting) } else { compiling.need(setting) };
        required.extend(value.map(|value| (header.clone(), value.clone())));
    }
    required
}

/// Every place the scheme reads, so that the request is scanned once.
fn wanted<'s>(
    template: &'s Template,
    carriers: &'s [(SignatureLocation, Vec<Key>)],
    time: Option<&'s Time>,
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
