//! Tokens with claims about the request (JWT): signature first, then what the claims say, then the times.
//!
//! One built-in for every vendor that sends such a token; what differs is in the description's `jwt` table. Written on
//! ring and not on a JWT library: the algorithm is fixed before the token is looked at, no claim is optional by accident,
//! and a library would bring its own choice of keys, JSON and base64 for the twenty lines that are left.

mod rule;
mod token;

use std::borrow::Cow;

use data_encoding::BASE64URL_NOPAD;
use http::HeaderName;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

pub(crate) use rule::{Rule, Signing};
use token::{Claims, Token};

use crate::UnixMillis;
use crate::digest::sha256;
use crate::provider::keys::{Keyring, VendorKeys, first_match};
use crate::provider::scheme::{Address, Encoding, Key, KeyForm, Mac, Refused, Verified, Verifier, bearer};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::request::Request;
use crate::secret::Secret;
use crate::verdict::{Reason, Rejection};

/// How long a token that we sign ourselves is good.
const OWN_LIFE_SECONDS: i64 = 300;

/// A rule with its keys and the settings that it names.
#[derive(Debug)]
pub(crate) struct Jwt {
    rule: Rule,
    header: HeaderName,
    shared: Vec<Key>,
    public: VendorKeys,
    address: Option<Address>,
    audience: Option<String>,
    expected: Vec<(String, String)>,
}

impl Jwt {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let Some(mut rule) = compiling.spec.description.jwt.clone() else {
            compiling.problem("jwt", "nothing says what tokens hold", "add jwt = { alg = \"HS256\", … }");
            return None;
        };
        if let Some(issuer) = compiling.text("issuer") {
            rule.iss = vec![issuer];
        }
        if let Some(tolerance) = compiling.spec.tolerance {
            let seconds = u32::try_from(tolerance.as_secs()).unwrap_or(u32::MAX);
            rule.max_age = rule.max_age.map(|_own| seconds);
            rule.skew = seconds;
        }
        let (mut shared, mut public) = (Vec::new(), VendorKeys::default());
        match rule.alg {
            Signing::Hs256 => shared = shared_keys(compiling),
            Signing::Public(algorithm) => {
                public = VendorKeys::compile(compiling, algorithm, rule.keys.is_some());
                public.url = public.url.or_else(|| rule.keys.clone());
            }
        }
        let mut need = |name: &String| compiling.need(name).and_then(|_| compiling.text(name));
        let audience = rule.aud.as_ref().and_then(&mut need);
        let expected = rule.equal.iter().filter_map(|(claim, name)| Some((claim.clone(), need(name)?))).collect();
        let audience = audience.or_else(|| if rule.aud.is_none() { compiling.text("audience") } else { None });
        let address = if rule.url.is_some() || rule.url_hash.is_some() { Address::of(compiling) } else { None };
        let header = rule.header.clone().unwrap_or(AUTHORIZATION);
        Some(Box::new(Self { rule, header, shared, public, address, audience, expected }))
    }

    /// The position of the key that signed a token.
    fn check_signature(&self, token: &Token<'_>, now: UnixMillis) -> Result<usize, Refused> {
        let named = token.header.text("alg") == Some(self.rule.alg.word());
        // A critical extension is one that a reader who does not know it must refuse.
        if !named || token.header.has("crit") {
            return Err(Reason::MalformedSignature.into());
        }
        match self.rule.alg {
            Signing::Hs256 => {
                let message = [Cow::Borrowed(token.signed.as_bytes())];
                let given = [token.signature.clone()];
                let found = self.shared.iter().position(|key| key.verify(&message, &given));
                found.map(|index| index + 1).ok_or(Reason::Mismatch.into())
            }
            Signing::Public(algorithm) => {
                let keys = self.public.find(None, token.header.text("kid"), now)?;
                first_match(&keys, algorithm, token.signed.as_bytes(), &token.signature, now).map_err(Refused::from)
            }
        }
    }

    fn check_claims(&self, claims: &Claims, request: &Request) -> Result<(), Reason> {
        let rule = &self.rule;
        let is_issued = rule.iss.is_empty() || rule.iss.iter().any(|issuer| claims.text("iss") == Some(issuer));
        let is_for_us = self.audience.as_ref().is_none_or(|audience| claims.holds("aud", audience));
        let is_equal = self.expected.iter().all(|(claim, value)| claims.text(claim) == Some(value));
        if !is_issued || !is_for_us || !is_equal || !rule.is_true.iter().all(|claim| claims.is_true(claim)) {
            return Err(Reason::WrongClaim);
        }
        let urls = self.address.as_ref().map_or_else(Vec::new, |address| address.urls(&request.target));
        let is_here = |claim: &String| urls.iter().any(|url| claims.text(claim) == Some(url.as_str()));
        let is_hashed = |claim: &String| urls.iter().any(|url| self.is_hash(claims.text(claim), url.as_bytes()));
        let names_url = rule.url.as_ref().is_none_or(is_here) && rule.url_hash.as_ref().is_none_or(is_hashed);
        let hashes_body = rule.body.as_ref().is_none_or(|claim| {
            request.body.is_empty() && !claims.has(claim) || self.is_hash(claims.text(claim), &request.body)
        });
        if names_url && hashes_body { Ok(()) } else { Err(Reason::Mismatch) }
    }

    fn check_times(&self, claims: &Claims, now: UnixMillis) -> Result<(), Rejection> {
        let late = |reason: Reason, off: i64| Rejection { off_by_seconds: Some(off.div_euclid(1000)), ..reason.into() };
        let read = |name: &str| claims.time(name).map_err(|()| Reason::BadTimestamp);
        let (iat, nbf, exp) = (read("iat")?, read("nbf")?, read("exp")?);
        let skew = i64::from(self.rule.skew) * 1000;
        if self.rule.expires && exp.is_none() || self.rule.max_age.is_some() && iat.is_none() {
            return Err(Reason::BadTimestamp.into());
        }
        if let (Some(iat), Some(max_age)) = (iat, self.rule.max_age)
            && now - iat > i64::from(max_age) * 1000
        {
            return Err(late(Reason::TooOld, now - iat));
        }
        if let Some(exp) = exp.filter(|exp| now >= exp.saturating_add(skew)) {
            return Err(late(Reason::TooOld, now - exp));
        }
        match iat.into_iter().chain(nbf).find(|from| from - now > skew) {
            Some(from) => Err(late(Reason::TooNew, from - now)),
            None => Ok(()),
        }
    }

    fn is_hash(&self, text: Option<&str>, bytes: &[u8]) -> bool {
        // QStash pads its base64url and does not always.
        let text =
            text.map(|text| if self.rule.enc == Encoding::Base64Url { text.trim_end_matches('=') } else { text });
        let given = text.and_then(|text| self.rule.enc.decode(text));
        given.is_some_and(|given| bool::from(given.as_slice().ct_eq(&sha256(bytes))))
    }

    fn url(&self, request: &Request) -> String {
        self.address.as_ref().map_or_else(String::new, |address| address.url(&request.target))
    }

    fn own_claims(&self, request: &Request, now: UnixMillis) -> Map<String, Value> {
        let rule = &self.rule;
        let hash = |bytes: &[u8]| Value::from(rule.enc.encode(&sha256(bytes)));
        let seconds = now.div_euclid(1000);
        let mut claims = Map::new();
        let mut put = |name: &str, value: Value| drop(claims.insert(name.to_owned(), value));
        rule.iss.first().into_iter().for_each(|issuer| put("iss", issuer.as_str().into()));
        self.audience.iter().for_each(|audience| put("aud", audience.as_str().into()));
        self.expected.iter().for_each(|(claim, value)| put(claim, value.as_str().into()));
        rule.is_true.iter().for_each(|claim| put(claim, true.into()));
        rule.body.iter().for_each(|claim| put(claim, hash(&request.body)));
        rule.url.iter().for_each(|claim| put(claim, self.url(request).into()));
        rule.url_hash.iter().for_each(|claim| put(claim, hash(self.url(request).as_bytes())));
        // Where the vendor puts no time into its token, neither does a sample.
        let times = [("iat", seconds), ("nbf", seconds), ("exp", seconds + OWN_LIFE_SECONDS)];
        let has_time = rule.expires || rule.max_age.is_some();
        times.into_iter().filter(|_| has_time).for_each(|(name, time)| put(name, time.into()));
        claims
    }

    fn own_signature(&self, signed: &str) -> Result<Vec<u8>, SignError> {
        match self.rule.alg {
            Signing::Hs256 => {
                let key = self.shared.first().ok_or(SignError::Incomplete)?;
                key.sign(&[Cow::Borrowed(signed.as_bytes())]).ok_or(SignError::Incomplete)
            }
            Signing::Public(algorithm) => {
                let key = self.public.signer.as_ref().ok_or(SignError::PrivateKey)?;
                key.sign(algorithm, signed.as_bytes()).ok_or(SignError::PrivateKey)
            }
        }
    }
}

impl Verifier for Jwt {
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Refused> {
        let line = builtin::line(&request.headers, &self.header)?;
        let token = Token::parse(bearer(line).unwrap_or(line)).ok_or(Reason::MalformedSignature)?;
        let secret = self.check_signature(&token, now)?;
        self.check_claims(&token.claims, request)?;
        self.check_times(&token.claims, now)?;
        // A token that says nothing about the body may serve many requests.
        let delivery = self.rule.body.as_ref().map(|_| token.claims.text("jti").unwrap_or(token.signed));
        let delivery = delivery.map(|name| name.as_bytes().into());
        Ok(Verified { secret, delivery, ..Verified::by_key(0) })
    }

    fn judge_head(&self, head: &Request, now: UnixMillis) -> Result<(), Rejection> {
        let line = builtin::line(&head.headers, &self.header)?;
        let token = Token::parse(bearer(line).unwrap_or(line)).ok_or(Reason::MalformedSignature)?;
        self.check_times(&token.claims, now)
    }

    fn sign(&self, mut request: Request, now: UnixMillis) -> Result<Request, SignError> {
        let mut header = serde_json::json!({ "alg": self.rule.alg.word(), "typ": "JWT" });
        if let Some(kid) = self.public.first_kid() {
            header["kid"] = kid.into();
        }
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(&header), part(&self.own_claims(&request, now).into()));
        let signature = BASE64URL_NOPAD.encode(&self.own_signature(&signed)?);
        let bearer = if self.header == AUTHORIZATION { "Bearer " } else { "" };
        let line = format!("{bearer}{signed}.{signature}");
        builtin::insert(&mut request.headers, self.header.clone(), &line)?;
        Ok(request)
    }

    fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    fn keyring(&self) -> Option<&Keyring> {
        Some(&self.public.ring)
    }
}

/// Secrets, and the setting `next` for vendors that show the next key before they use it.
fn shared_keys(compiling: &mut Compiling<'_>) -> Vec<Key> {
    let is_public = |secret: &Secret| secret.expose().trim_ascii_start().starts_with(b"-----BEGIN");
    let make = |secret: &Secret| {
        // What everybody may know protects nothing.
        let key = Key::new(Mac::HmacSha256, KeyForm::Utf8, secret);
        key.filter(|_| !is_public(secret))
    };
    let mut keys = compiling.keys(make);
    let next = compiling.setting("next");
    keys.extend(next.and_then(make));
    keys
}
