//! `jwt = { … }` of a description: what a vendor's token must say.

use crate::Problem;
use crate::provider::description::field::Field;
use crate::provider::keys::Algorithm;
use crate::provider::keys::vendor_keys::unfit_for_keys;
use crate::provider::scheme::Encoding;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Signing {
    /// HMAC with SHA-256; the secret is shared.
    #[default]
    Hs256,
    /// With the vendor's private key.
    Public(Algorithm),
}

impl Signing {
    /// The word in a token's header.
    pub(crate) fn word(self) -> &'static str {
        ALGORITHMS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }
}

const ALGORITHMS: &[(&str, Signing)] = &[
    ("HS256", Signing::Hs256),
    ("RS256", Signing::Public(Algorithm::RsaSha256)),
    ("ES256", Signing::Public(Algorithm::P256Fixed)),
];

#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    /// The header that carries it; `authorization` when absent.
    pub(crate) header: Option<http::HeaderName>,
    pub(crate) alg: Signing,
    /// Where the vendor's keys are.
    pub(crate) keys: Option<String>,
    /// Issuers, one of which it must name.
    pub(crate) iss: Vec<String>,
    /// The setting that its audience must be.
    pub(crate) aud: Option<String>,
    /// Claims that must be what a setting says.
    pub(crate) equal: Vec<(String, String)>,
    /// Claims that must be true.
    pub(crate) is_true: Vec<String>,
    /// The claim that holds the body's SHA-256.
    pub(crate) body: Option<String>,
    /// The claim that holds the URL.
    pub(crate) url: Option<String>,
    /// The claim that holds the URL's SHA-256.
    pub(crate) url_hash: Option<String>,
    pub(crate) enc: Encoding,
    /// How old it may be, by its own `iat`, in seconds.
    pub(crate) max_age: Option<u32>,
    /// It must say when it expires.
    pub(crate) expires: bool,
    /// How far the clocks may differ, in seconds.
    pub(crate) skew: u32,
}

const NAMES: &str = "header alg keys iss aud equal true body url url_hash enc max_age expires skew";
const ENCODINGS: &[(&str, Encoding)] = &[("hex", Encoding::Hex), ("base64url", Encoding::Base64Url)];

impl Rule {
    pub(crate) fn read(
        field: &Field<'_>,
        setting: impl Fn(&Field<'_>) -> Result<String, Problem>,
    ) -> Result<Self, Problem> {
        let mut rule = Self { skew: 60, ..Self::default() };
        let mut alg = None;
        for (name, field) in field.table(NAMES)? {
            let texts = || field.texts().map(|texts| texts.into_iter().map(str::to_owned).collect());
            match name {
                "header" => rule.header = Some(header(&field)?),
                "alg" => alg = Some(field.word(ALGORITHMS)?),
                "keys" => rule.keys = Some(keys_address(&field)?),
                "iss" => rule.iss = texts()?,
                "aud" => rule.aud = Some(setting(&field)?),
                "equal" => {
                    let pairs = field.any_table()?.into_iter();
                    rule.equal = pairs
                        .map(|(claim, field)| Ok((claim.to_owned(), setting(&field)?)))
                        .collect::<Result<_, _>>()?;
                }
                "true" => rule.is_true = texts()?,
                "body" => rule.body = Some(field.text()?.to_owned()),
                "url" => rule.url = Some(field.text()?.to_owned()),
                "url_hash" => rule.url_hash = Some(field.text()?.to_owned()),
                "enc" => rule.enc = field.word(ENCODINGS)?,
                "max_age" => rule.max_age = Some(field.seconds()?),
                "expires" => rule.expires = field.flag()?,
                _ => rule.skew = field.seconds()?,
            }
        }
        let cure = "add alg = \"HS256\", \"RS256\" or \"ES256\": it is never taken from the token";
        rule.alg = alg.ok_or_else(|| field.problem("nothing says how tokens are signed", cure))?;
        Ok(rule)
    }
}

fn keys_address(field: &Field<'_>) -> Result<String, Problem> {
    let url = field.text()?;
    match unfit_for_keys(url) {
        None => Ok(url.to_owned()),
        Some(what) => Err(field.problem(what, "write https://…")),
    }
}

fn header(field: &Field<'_>) -> Result<http::HeaderName, Problem> {
    http::HeaderName::try_from(field.text()?)
        .map_err(|_invalid| field.problem("this is no header name", "write header = \"authorization\""))
}
