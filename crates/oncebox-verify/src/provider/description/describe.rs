//! The keys of a description: what each may hold and how it is read from TOML.
//!
//! Every key is checked when it is set, so that an operator hears about the key and not about a request that failed
//! later. What only shows when keys meet (a time that nothing signs, a missing secret) is checked by `scheme/compile.rs`.

use http::{HeaderName, Method};

use crate::provider::description::field::Field;
use crate::provider::identity::batch::Batch;
use crate::provider::identity::handshake::{Content, Pattern};
use crate::provider::keys::curve::Curve;
use crate::provider::keys::jwt::Rule;
use crate::provider::scheme::{Composite, Encoding, KeyForm, Mac, Part, Template, Unit, Window};
use crate::provider::vendor::builtin::BUILT_IN;
use crate::provider::{Description, Problem, SETTINGS};

mod carrier;

use carrier::carrier;
pub(crate) use carrier::{CarriedAt, SignatureLocation, name_fits};

/// The window where a vendor names none, in seconds.
pub(crate) const WINDOW_SECONDS: i64 = 300;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IdentityRule {
    #[default]
    Id,
    /// The exact bytes: the sender has no id and repeats them on a retry.
    Digest,
    /// Nothing: every arrival is an event.
    None,
}

impl IdentityRule {
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Id => "its id",
            Self::Digest => "the exact bytes of the body",
            Self::None => "nothing: every arrival is an event",
        }
    }
}

/// What must be equal for bytes to count as seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RepeatScope {
    #[default]
    Body,
    /// Type and body, for senders whose types may share one body.
    Type,
}

/// A header that must hold the value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Required {
    pub(crate) header: HeaderName,
    pub(crate) setting: String,
    /// Only where the setting is given.
    pub(crate) optional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) at: TimeAt,
    pub(crate) unit: Unit,
    pub(crate) window: Window,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimeAt {
    /// Headers, the first that is there counts.
    Header(Part),
    /// The item with this tag, beside the signatures.
    Item(String),
    /// The item at this position from 1, beside the signatures.
    Position(usize),
    Json(Part),
}

/// A request that wants an answer and is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) method: Method,
    /// The place that tells, and what it must hold, or anything; every request of the method when absent.
    pub(crate) when: Option<(Part, Option<String>)>,
    /// Places that must hold the value of a setting.
    pub(crate) check: Vec<(Part, String)>,
    pub(crate) reply: Content,
    pub(crate) headers: Vec<(HeaderName, Pattern)>,
    /// The place of a secret that the handshake brings.
    pub(crate) secret: Option<Part>,
    /// That secret must also be typed in at the vendor, so a person has to see it once.
    pub(crate) show: bool,
    pub(crate) content_type: &'static str,
    /// The signature is checked first.
    pub(crate) signed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Success {
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

/// Makes the list of keys and the function that sets one, so that neither knows a key that the other does not.
macro_rules! keys {
    (|$own:ident, $field:ident| $($key:literal => $set:expr,)*) => {
        pub(crate) const KEYS: &[&str] = &[$($key),*];

        pub(crate) fn set($own: &mut Description, $field: &Field<'_>, key: &str) -> Result<(), Problem> {
            match key {
                $($key => $set,)*
                _ => return Err($field.problem("this key is not known", format!("use one of {}", KEYS.join(", ")))),
            }
            Ok(())
        }
    };
}

keys! { |own, field|
    "scheme" => own.scheme = Some(field.word(&BUILT_IN.each_ref().map(|one| (one.word, one)))?),
    "jwt" => own.jwt = Some(Rule::read(field, setting)?),
    "mac" => own.mac = Some(field.word(MACS)?),
    "enc" => own.enc = field.word(ENCODINGS)?,
    "key" => own.key = field.word(KEY_FORMS)?,
    "msg" => own.msg = Some(template(field)?),
    "sig" => own.sig = Some(carrier(field)?),
    "sig2" => own.sig2 = Some(carrier(field)?),
    "ts" => own.ts = Some(time(field)?),
    "require" => own.require = required(field)?,
    "require_value" => own.require_value = required_values(field)?,
    "identity" => own.identity = field.word(IDENTITIES)?,
    "id" => (own.id, own.otherwise) = ids(field)?,
    "id_signed" => own.id_signed = field.flag()?,
    "id_unique" => own.id_unique = Some(field.flag()?),
    "body_covered" => own.body_covered = Some(field.flag()?),
    "body_varies" => own.body_varies = field.flag()?,
    "repeat_scope" => own.repeat_scope = field.word(&[("body", RepeatScope::Body), ("type", RepeatScope::Type)])?,
    "delivery" => own.delivery = Some(part(field, field.text()?)?),
    "topics" => own.topics = field.texts()?.into_iter().map(str::to_owned).collect(),
    "open" => field.text()?.clone_into(&mut own.open),
    "type" => own.event_type = field.texts()?.into_iter().map(|text| part(field, text)).collect::<Result<_, _>>()?,
    "order" => own.order = Some(order(field)?),
    "time" => own.time = Some(part(field, field.text()?)?),
    "each" => own.each = Some(batch(field)?),
    "handshake" => own.handshake = field.tables().iter().map(handshake).collect::<Result<_, _>>()?,
    "success" => own.success = Some(success(field)?),
    "body_limit" => own.body_limit = Some(field.bytes()?),
    "retry_window" => own.retry_window = Some(field.seconds()?),
    "deadline" => own.deadline = Some(field.seconds()?),
    "title" => field.text()?.clone_into(&mut own.title),
    "setup" => field.text()?.clone_into(&mut own.setup),
    "secret_hint" => field.text()?.clone_into(&mut own.secret_hint),
    "docs" => field.text()?.clone_into(&mut own.docs),
    "confidence" => field.text()?.clone_into(&mut own.confidence),
}

pub(crate) const MACS: &[(&str, Mac)] = &[
    ("hmac-sha256", Mac::HmacSha256),
    ("hmac-sha1", Mac::HmacSha1),
    ("hmac-sha512", Mac::HmacSha512),
    ("sha1", Mac::Sha1),
    ("sha256", Mac::Sha256),
    ("ed25519", Mac::Public(Curve::Ed25519)),
    ("ecdsa-p256", Mac::Public(Curve::P256)),
    ("equal", Mac::Equal),
    ("basic", Mac::Basic),
    ("none", Mac::Nothing),
];
const ENCODINGS: &[(&str, Encoding)] =
    &[("hex", Encoding::Hex), ("base64", Encoding::Base64), ("base64url", Encoding::Base64Url)];
const KEY_FORMS: &[(&str, KeyForm)] = &[
    ("utf8", KeyForm::Utf8),
    ("hex", KeyForm::Hex),
    ("base64", KeyForm::Base64),
    ("whsec", KeyForm::Whsec),
    ("whsec-or-utf8", KeyForm::WhsecOrUtf8),
    ("nfkd", KeyForm::Nfkd),
];
const UNITS: &[(&str, Unit)] = &[("s", Unit::Seconds), ("ms", Unit::Millis), ("rfc3339", Unit::Rfc3339)];
const IDENTITIES: &[(&str, IdentityRule)] =
    &[("id", IdentityRule::Id), ("digest", IdentityRule::Digest), ("none", IdentityRule::None)];
const CONTENT_TYPES: &[(&str, &str)] =
    &[("text", "text/plain; charset=utf-8"), ("json", "application/json"), ("xml", "text/xml; charset=utf-8")];
const PLACES: &str =
    "write header:name, json:/pointer, root:/pointer, parent:/pointer, form:name, form:name#/pointer or query:name";

pub(crate) fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

fn part(field: &Field<'_>, text: &str) -> Result<Part, Problem> {
    Part::parse(text).ok_or_else(|| field.problem("this place cannot be read", PLACES))
}

fn composite(field: &Field<'_>, text: &str) -> Result<Composite, Problem> {
    Composite::parse(text).ok_or_else(|| field.problem("this id cannot be read", format!("{PLACES}, joined by +")))
}

/// The ids, and what stands in for them: a last word `digest` or `none`.
fn ids(field: &Field<'_>) -> Result<(Vec<Composite>, Option<IdentityRule>), Problem> {
    let mut texts = field.texts()?;
    let word = texts.last().and_then(|last| IDENTITIES[1..].iter().find(|(word, _)| word == last));
    let otherwise = word.map(|(_, rule)| *rule);
    if otherwise.is_some() {
        texts.pop();
    }
    let ids = texts.into_iter().map(|text| composite(field, text)).collect::<Result<_, _>>()?;
    Ok((ids, otherwise))
}

fn batch(field: &Field<'_>) -> Result<Batch, Problem> {
    let cure = "write \"/name/*/name\", \"\" for the whole body, \"lines\" for JSON lines, or a list of these";
    Batch::parse(&field.texts()?).ok_or_else(|| field.problem("this is no JSON pointer", cure))
}

fn template(field: &Field<'_>) -> Result<Template, Problem> {
    let cure = "use {body} {ts} {url} {url|decode} {method} {secret} {header:a|b} {json:/p} {form:name} {query:name}";
    Template::parse(field.text()?).map_err(|message| field.problem(message, cure))
}

fn time(field: &Field<'_>) -> Result<Time, Problem> {
    let mut at = None;
    let (mut unit, mut past, mut future) = (Unit::Seconds, WINDOW_SECONDS, None);
    for (name, field) in field.table("header item position json unit past future")? {
        match name {
            "header" => at = Some(TimeAt::Header(part(&field, &format!("header:{}", field.headers()?.join("|")))?)),
            "item" => at = Some(TimeAt::Item(field.text()?.to_owned())),
            "position" => match usize::try_from(field.count()?) {
                Ok(position @ 1..) => at = Some(TimeAt::Position(position)),
                _ => return Err(field.problem("positions are counted from 1", "write position = 1 for the first item")),
            },
            "json" => at = Some(TimeAt::Json(part(&field, &format!("json:{}", field.text()?))?)),
            "unit" => unit = field.word(UNITS)?,
            "past" => past = field.seconds()?.into(),
            _ => future = Some(field.seconds()?.into()),
        }
    }
    let cure = "add header = [\"…\"], item = \"t=\", position = 1 or json = \"/…\"";
    let at = at.ok_or_else(|| field.problem("this does not say where the time is", cure))?;
    Ok(Time { at, unit, window: Window { past, future: future.unwrap_or(past.min(WINDOW_SECONDS)) } })
}

fn required(field: &Field<'_>) -> Result<Vec<Required>, Problem> {
    let words: Vec<(String, &str)> =
        SETTINGS.iter().flat_map(|name| [((*name).to_owned(), *name), (format!("{name}?"), *name)]).collect();
    let words: Vec<(&str, &str)> = words.iter().map(|(word, name)| (word.as_str(), *name)).collect();
    let read = |(name, field): (&str, Field<'_>)| {
        let optional = field.text().is_ok_and(|text| text.ends_with('?'));
        Ok(Required { header: header(&field, name)?, setting: field.word(&words)?.to_owned(), optional })
    };
    field.any_table()?.into_iter().map(read).collect()
}

fn required_values(field: &Field<'_>) -> Result<Vec<(HeaderName, String)>, Problem> {
    let read = |(name, field): (&str, Field<'_>)| Ok((header(&field, name)?, field.text()?.to_owned()));
    field.any_table()?.into_iter().map(read).collect()
}

fn header(field: &Field<'_>, name: &str) -> Result<HeaderName, Problem> {
    HeaderName::try_from(name)
        .map_err(|_invalid| field.problem("this is no header name", "write { \"x-header\" = \"…\" }"))
}

fn setting(field: &Field<'_>) -> Result<String, Problem> {
    let words: Vec<(&str, &str)> = SETTINGS.iter().map(|name| (*name, *name)).collect();
    field.word(&words).map(str::to_owned)
}

fn order(field: &Field<'_>) -> Result<(Part, Part), Problem> {
    let (mut entity, mut version) = (None, None);
    for (name, field) in field.table("entity version")? {
        let read = Some(part(&field, field.text()?)?);
        if name == "entity" { entity = read } else { version = read }
    }
    let both = entity.zip(version);
    both.ok_or_else(|| {
        field.problem("an order needs two places", "write { entity = \"json:/…\", version = \"json:/…\" }")
    })
}

fn handshake(field: &Field<'_>) -> Result<Handshake, Problem> {
    let (mut method, mut when, mut check, mut headers) = (Method::POST, None, Vec::new(), Vec::new());
    let (mut reply, mut secret) = (Content::Text(Pattern::default()), None);
    let (mut wrap, mut content_type, mut signed, mut show) = (None, CONTENT_TYPES[0].1, true, false);
    for (name, field) in field.table("method when check reply headers wrap as signed secret show")? {
        match name {
            "method" => {
                let words = ["GET", "POST", "HEAD", "OPTIONS"].map(|word| (word, word));
                method = Method::try_from(field.word(&words)?).unwrap_or(Method::POST);
            }
            "when" => {
                let text = field.text()?;
                let (place, value) =
                    text.split_once(" == ").map_or((text, None), |(place, value)| (place, Some(value)));
                when = Some((part(&field, place)?, value.map(str::to_owned)));
            }
            "check" => {
                for (place, field) in field.any_table()? {
                    check.push((part(&field, place)?, setting(&field)?));
                }
            }
            "reply" => reply = content(&field)?,
            "headers" => headers = header_patterns(&field)?,
            "secret" => secret = Some(part(&field, field.text()?)?),
            "show" => show = field.flag()?,
            "wrap" => wrap = Some(field.text()?.to_owned()),
            "as" => content_type = field.word(CONTENT_TYPES)?,
            _ => signed = field.flag()?,
        }
    }
    let cure = "write when = \"json:/type == word\"";
    if when.is_none() && method == Method::POST {
        return Err(field.problem("a handshake by POST needs a condition, or it would swallow every event", cure));
    }
    // An echo inside a JSON object under this name.
    let reply = match (reply, wrap) {
        (Content::Text(pattern), Some(name)) => Content::Object(vec![(name, pattern)]),
        (reply, _) => reply,
    };
    Ok(Handshake { method, when, check, reply, headers, secret, show, content_type, signed })
}

fn content(field: &Field<'_>) -> Result<Content, Problem> {
    if let Ok(text) = field.text() {
        return Ok(Content::Text(Pattern::parse(text)));
    }
    let fields = field.any_table()?.into_iter();
    let read = |(name, field): (&str, Field<'_>)| Ok((name.to_owned(), Pattern::parse(field.text()?)));
    fields.map(read).collect::<Result<_, Problem>>().map(Content::Object)
}

fn header_patterns(field: &Field<'_>) -> Result<Vec<(HeaderName, Pattern)>, Problem> {
    let read = |(name, field): (&str, Field<'_>)| Ok((header(&field, name)?, Pattern::parse(field.text()?)));
    field.any_table()?.into_iter().map(read).collect()
}

fn success(field: &Field<'_>) -> Result<Success, Problem> {
    let (mut content_type, mut body) = (CONTENT_TYPES[0].1, String::new());
    for (name, field) in field.table("as body")? {
        if name == "as" {
            content_type = field.word(CONTENT_TYPES)?;
        } else {
            field.text()?.clone_into(&mut body);
        }
    }
    Ok(Success { content_type, body })
}
