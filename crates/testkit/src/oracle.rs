//! Every vendor's requests, built a second time from what the vendors say and never from the library's code.
//!
//! A [`Case`] holds the secret and settings an operator would write, a draft in the vendor's real shape and how the
//! vendor signs it. From one case come a good request, the other forms the vendor uses, and every way to spoil it
//! that must be refused (see [`spoil`]). The tests of the library, of the program and the benchmark share them.

mod body_base64;
mod body_hex;
mod certificate;
pub mod crypto;
mod form;
pub mod generate;
mod in_body;
mod jwt;
mod list_hex;
mod public_key;
pub mod spoil;
mod standard;
mod timed;
mod timed_header;
mod token;
mod token_body;

use serde_json::{Value, json};

/// When the drafts are signed: 2027-01-15T08:00:00Z.
pub const NOW: i64 = 1_800_000_000;
/// Where the vendors believe the inbox to be; the setting `public_url` of the cases that sign it.
pub const ORIGIN: &str = "https://hooks.example.com";

/// Stands in a URL for the name of the query field that carries a token, where the vendor lets the operator choose it.
pub const QUERY_FIELD: &str = "QUERY_FIELD";

/// What a draft and its signature are made from.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// The provider's slug.
    pub slug: &'static str,
    /// What the vendor signs with.
    pub secret: String,
    /// Unix seconds.
    pub now: i64,
    /// Stands in every id, so that requests differ.
    pub number: u32,
    /// Fill a JSON body up to about this many bytes.
    pub filler_bytes: usize,
}

/// A request as captured, and what must be found in it.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The method.
    pub method: &'static str,
    /// The full URL.
    pub url: String,
    /// Headers in order, repeated ones too.
    pub headers: Vec<(String, String)>,
    /// The raw body.
    pub body: Vec<u8>,
    /// When it came, in Unix seconds.
    pub at: i64,
    /// The signature as it stands in the body or the URL, where it is in no header.
    pub inner_signature: String,
    /// The events in it.
    pub events: Vec<Expected>,
}

/// An event that must be found.
#[derive(Clone, Debug)]
pub struct Expected {
    /// What identifies it.
    pub id: Id,
    /// The types that are right; any is, if there are none.
    pub types: Vec<String>,
}

/// What identifies an event.
#[derive(Clone, Debug)]
pub enum Id {
    /// These parts, joined by a colon.
    Parts(Vec<String>),
    /// The digest of the exact bytes.
    Digest,
    /// Nothing: every arrival is an event.
    Arrival,
    /// The vendor facts leave room: one of these.
    OneOf(Vec<Id>),
    /// The operator describes it.
    Anything,
}

/// Where the signature or token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this header.
    Header(&'static str),
    /// In the body or the URL, as [`Capture::inner_signature`].
    Inner,
    /// At the end of the path: the source's own token, in place of a signature.
    Path,
}

/// The seconds around the signed time, as seen from the time of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Accepted this long after signing.
    pub fresh: i64,
    /// Refused this long after signing.
    pub stale: Option<i64>,
    /// Refused this long before signing.
    pub early: Option<i64>,
}

/// Changes a signed capture.
pub type Change = fn(&Ctx, &mut Capture);

/// One vendor, in one of its forms.
#[derive(Clone, Debug)]
pub struct Case {
    /// The provider's slug.
    pub slug: &'static str,
    /// Which of the vendor's forms, empty for the usual one.
    pub form: &'static str,
    /// The secret that the operator writes.
    pub secret: &'static str,
    /// What the vendor signs with: the same, unless it is a private key.
    pub signing_secret: &'static str,
    /// What somebody else would sign with.
    pub other_secret: &'static str,
    /// The settings that the operator writes.
    pub settings: Vec<(&'static str, &'static str)>,
    /// Keys of a description laid over the provider's, as TOML.
    pub description: &'static str,
    /// The unsigned request.
    pub draft: fn(&Ctx) -> Capture,
    /// How the vendor signs it.
    pub sign: Change,
    /// Where the signature is.
    pub place: Place,
    /// The window, where a time is signed.
    pub window: Option<Window>,
    /// True when the signature covers every byte of the body.
    pub covers_body: bool,
    /// Changes after which it must still be accepted.
    pub accepts: Vec<(&'static str, Change)>,
    /// Changes after which it must be refused.
    pub rejects: Vec<(&'static str, Change)>,
    /// The hash under the signature, for the benchmark; none where a bare HMAC is no measure.
    pub hmac: Option<&'static ring::hmac::Algorithm>,
}

/// Every case, in the order of the files.
pub fn cases() -> Vec<Case> {
    [
        body_hex::cases(),
        list_hex::cases(),
        body_base64::cases(),
        timed::cases(),
        timed_header::cases(),
        standard::cases(),
        form::cases(),
        in_body::cases(),
        token::cases(),
        token_body::cases(),
        public_key::cases(),
        jwt::cases(),
        certificate::cases(),
    ]
    .concat()
}

impl Case {
    /// A case whose signature is in a header and covers the body.
    fn new(slug: &'static str, header: &'static str, draft: fn(&Ctx) -> Capture, sign: Change) -> Self {
        Self {
            slug,
            form: "",
            secret: "s3cr3t-0f-th3-0p3r4t0r-4nd-th3-v3nd0r",
            signing_secret: "s3cr3t-0f-th3-0p3r4t0r-4nd-th3-v3nd0r",
            other_secret: "s3cr3t-0f-s0m3b0dy-3ls3-wh0-1s-n0b0dy",
            settings: Vec::new(),
            description: "",
            draft,
            sign,
            place: Place::Header(header),
            window: None,
            covers_body: true,
            accepts: Vec::new(),
            rejects: Vec::new(),
            hmac: None,
        }
    }

    fn form(self, form: &'static str) -> Self {
        Self { form, ..self }
    }

    fn secrets(self, secret: &'static str, other_secret: &'static str) -> Self {
        Self { secret, signing_secret: secret, other_secret, ..self }
    }

    /// A public key for the operator; private ones for the vendor and for somebody else.
    fn key_pair(self, public: &'static str, private: &'static str, other: &'static str) -> Self {
        Self { secret: public, signing_secret: private, other_secret: other, ..self }
    }

    fn setting(mut self, name: &'static str, value: &'static str) -> Self {
        self.settings.push((name, value));
        self
    }

    /// The vendor signs the URL.
    fn signs_url(self) -> Self {
        self.setting("public_url", ORIGIN)
    }

    fn described(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    fn inner(self) -> Self {
        Self { place: Place::Inner, ..self }
    }

    fn by_path(self) -> Self {
        Self { place: Place::Path, ..self }
    }

    /// The vendor's window, both ways to the second.
    fn window(self, fresh: i64) -> Self {
        self.window_of(fresh, Some(fresh + 1), Some(fresh + 1))
    }

    fn window_of(self, fresh: i64, stale: Option<i64>, early: Option<i64>) -> Self {
        Self { window: Some(Window { fresh, stale, early }), ..self }
    }

    /// A time is signed but the vendor names no window: five minutes must be accepted, a day must not.
    fn window_of_ours(self) -> Self {
        self.window_of(300, Some(86_400), Some(86_400))
    }

    /// The signature does not cover the body, or not all of it.
    fn body_uncovered(self) -> Self {
        Self { covers_body: false, ..self }
    }

    fn accepts(mut self, what: &'static str, change: Change) -> Self {
        self.accepts.push((what, change));
        self
    }

    fn rejects(mut self, what: &'static str, change: Change) -> Self {
        self.rejects.push((what, change));
        self
    }

    fn hmac(self, algorithm: &'static ring::hmac::Algorithm) -> Self {
        Self { hmac: Some(algorithm), ..self }
    }

    /// Its body cannot be filled to a size, so the benchmark leaves it out.
    fn unmeasured(self) -> Self {
        Self { hmac: None, ..self }
    }

    /// Its name in reports.
    pub fn name(&self) -> String {
        if self.form.is_empty() { self.slug.to_owned() } else { format!("{} ({})", self.slug, self.form) }
    }

    /// What its requests are made from.
    pub fn ctx(&self, number: u32) -> Ctx {
        Ctx { slug: self.slug, secret: self.signing_secret.to_owned(), now: NOW, number, filler_bytes: 0 }
    }

    /// A good request.
    pub fn signed(&self, ctx: &Ctx) -> Capture {
        let mut capture = (self.draft)(ctx);
        (self.sign)(ctx, &mut capture);
        capture
    }
}

impl Ctx {
    /// An id with this prefix.
    pub fn id(&self, prefix: &str) -> String {
        format!("{prefix}{:08}", self.number)
    }

    /// An id that is a whole number.
    pub fn number_id(&self) -> u64 {
        4_000_000_000 + u64::from(self.number)
    }

    /// An id that is a UUID.
    pub fn uuid(&self) -> String {
        format!("7c9e6679-7425-40de-944b-{:012}", self.number)
    }

    /// Seconds as text.
    pub fn seconds(&self) -> String {
        self.now.to_string()
    }

    /// Milliseconds as text.
    pub fn millis(&self) -> String {
        (self.now * 1000).to_string()
    }

    /// RFC 3339 with a fraction of the second, `.000` or empty.
    pub fn rfc3339(&self, fraction: &str) -> String {
        crypto::rfc3339(self.now, fraction)
    }

    /// The URL the vendor was told to call.
    pub fn url(&self) -> String {
        format!("{ORIGIN}/in/{}", self.slug)
    }

    /// A draft with a JSON body.
    pub fn json(&self, body: Value) -> Capture {
        self.bytes("application/json", self.filled(body).to_string().into_bytes())
    }

    /// A draft with these bytes.
    pub fn bytes(&self, content_type: &str, body: Vec<u8>) -> Capture {
        Capture {
            method: "POST",
            url: self.url(),
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body,
            at: self.now,
            inner_signature: String::new(),
            events: Vec::new(),
        }
    }

    /// Adds short values of every kind, as vendors send them: one long text would flatter whoever reads it.
    fn filled(&self, mut body: Value) -> Value {
        let item =
            json!({"sku": "A-00012", "name": "a paper box", "quantity": 2, "price": 19.99, "gift": false, "tax": null});
        let missing = self.filler_bytes.saturating_sub(body.to_string().len());
        let object = if body.is_array() { &mut body[0] } else { &mut body };
        if missing > 0
            && let Value::Object(fields) = object
        {
            let count = missing / (item.to_string().len() + 1);
            fields.insert("further_rows".to_owned(), json!(vec![item; count]));
            let missing = self.filler_bytes.saturating_sub(body.to_string().len() + r#","further_text":"""#.len());
            let object = if body.is_array() { &mut body[0] } else { &mut body };
            object["further_text"] = json!("n".repeat(missing));
        }
        body
    }
}

impl Capture {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets a header in place of those of that name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.into()));
    }

    /// Takes the headers of that name away.
    pub fn remove(&mut self, name: &str) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// The value of a header that must be there.
    pub fn value(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or_else(|| panic!("the draft has a header {name}"), |(_, value)| value)
    }

    /// Replaces a text in the body that must be there.
    pub fn replace(&mut self, from: &str, to: &str) {
        let text = String::from_utf8(self.body.clone()).expect("the body is text");
        assert!(text.contains(from), "{from:?} is not in {text}");
        self.body = text.replace(from, to).into_bytes();
    }

    /// Expects an event with this id (parts are joined by a colon) and one of these types.
    pub fn event<const I: usize, const T: usize>(self, id: [&str; I], types: [&str; T]) -> Self {
        self.event_by(Id::parts(id), types)
    }

    /// Expects an event identified in another way.
    pub fn event_by<const T: usize>(mut self, id: Id, types: [&str; T]) -> Self {
        self.events.push(Expected { id, types: types.map(str::to_owned).to_vec() });
        self
    }
}

impl Id {
    /// Parts joined by a colon.
    pub fn parts<const N: usize>(parts: [&str; N]) -> Self {
        Self::Parts(parts.map(str::to_owned).to_vec())
    }

    /// True when the library's id says the same; the joiner of parts is the library's affair.
    pub fn matches(&self, found: &str) -> bool {
        match self {
            Self::Parts(parts) if parts.len() == 1 => found == parts[0],
            Self::Parts(parts) => joined(parts, found),
            Self::Digest => found.starts_with("body_"),
            Self::Arrival | Self::Anything => true,
            Self::OneOf(ids) => ids.iter().any(|id| id.matches(found)),
        }
    }
}

/// True when `found` is the parts in order with one or two joining characters between them.
fn joined(parts: &[String], found: &str) -> bool {
    let mut rest = found;
    for (position, part) in parts.iter().enumerate() {
        let skipped = if position == 0 {
            Some(0)
        } else {
            (1..=2).find(|n| rest.get(*n..).is_some_and(|rest| rest.starts_with(part.as_str())))
        };
        match skipped.and_then(|skipped| rest.get(skipped..)).and_then(|rest| rest.strip_prefix(part.as_str())) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}
