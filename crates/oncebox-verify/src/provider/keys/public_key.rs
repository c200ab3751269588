//! Public keys of vendors, and private ones for development, in every form people have them.
//!
//! A PEM certificate, a PEM public key, a JWK or JWKS, base64 of any of their DER forms, or a PKCS#8 private key whose
//! public half verifies (that is how `send` plays the vendor). What a key is *for* is said by the description and never
//! by the key: [`PublicKey::verify`] refuses an algorithm that does not fit its kind, so a public key can never end up
//! as an HMAC key.

use std::fmt;
use std::ops::RangeInclusive;

use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair as _, RsaKeyPair};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{PemObject as _, SectionKind};
use serde::Deserialize;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::spki::SubjectPublicKeyInfoRef;
use x509_cert::time::Time;

use crate::UnixMillis;
use crate::provider::scheme::mac::base64;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
pub(super) const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
pub(super) const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");

/// Longest text that is taken for keys: a vendor's whole set is a few kB.
const TEXT_BYTES_MAX: usize = 64 * 1024;
const KEYS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// RSA, PKCS#1 v1.5, SHA-256.
    RsaSha256,
    /// RSA, PKCS#1 v1.5, SHA-1, where a vendor still signs so.
    RsaSha1,
    /// ECDSA on P-256 with SHA-256, both numbers side by side as JWTs write them.
    P256Fixed,
}

/// A key that verifies, with what is known about it.
#[derive(Clone, Debug)]
pub(crate) struct PublicKey {
    /// The vendor's name for it.
    pub(crate) kid: Option<String>,
    kind: Kind,
    /// When a certificate is good.
    valid: Option<RangeInclusive<UnixMillis>>,
}

#[derive(Clone, Debug)]
enum Kind {
    RsaDer(Vec<u8>),
    RsaNumbers { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
}

/// A key that signs, for development.
pub(crate) enum PrivateKey {
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Keys that verify, private ones by their public half.
    pub(crate) public: Vec<PublicKey>,
    /// The first key that signs, if there is one.
    pub(crate) private: Option<PrivateKey>,
}

impl Keys {
    /// Reads keys in any of the forms; none when there is no key in the text.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let text = text.trim_ascii();
        let keys = match text.first()? {
            b'{' => from_json(text),
            _ if text.starts_with(b"-----") => from_pem(text),
            _ => from_base64(text),
        }?;
        (!keys.public.is_empty()).then_some(keys)
    }

    /// The key of the first certificate in PEM and nothing else: what was proved of a fetched text is that certificate.
    pub(crate) fn of_certificate(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let der = CertificateDer::pem_slice_iter(text).next()?.ok()?;
        Some(Self { public: vec![from_certificate(&der)?], private: None })
    }

    fn add_der(&mut self, der: &[u8]) -> Option<()> {
        if let Some(key) = from_certificate(der).or_else(|| from_spki(der)) {
            self.public.push(key);
            return Some(());
        }
        let private = PrivateKey::from_pkcs8(der)?;
        self.public.push(private.public());
        self.private = self.private.take().or(Some(private));
        Some(())
    }
}

impl PublicKey {
    /// True when the signature belongs to the message; false for an algorithm that this key is not for.
    pub(crate) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let rsa = match algorithm {
            Algorithm::RsaSha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::RsaSha1 => &signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::P256Fixed => {
                let Kind::P256(point) = &self.kind else { return false };
                let key = signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                return key.verify(message, signature).is_ok();
            }
        };
        match &self.kind {
            Kind::RsaDer(der) => signature::UnparsedPublicKey::new(rsa, der).verify(message, signature).is_ok(),
            Kind::RsaNumbers { n, e } => {
                signature::RsaPublicKeyComponents { n, e }.verify(rsa, message, signature).is_ok()
            }
            Kind::P256(_) => false,
        }
    }

    pub(crate) fn named(self, kid: Option<String>) -> Self {
        Self { kid: self.kid.or(kid), ..self }
    }

    pub(crate) fn is_for(&self, algorithm: Algorithm) -> bool {
        matches!(self.kind, Kind::P256(_)) == (algorithm == Algorithm::P256Fixed)
    }

    /// True unless a certificate's own dates say otherwise.
    pub(crate) fn is_valid_at(&self, now: UnixMillis) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.contains(&now))
    }

    /// True when it comes from a certificate, which says how long it is good.
    pub(crate) fn has_dates(&self) -> bool {
        self.valid.is_some()
    }

    /// Without dates: what the operator gives is trusted as it is.
    pub(crate) fn trusted(self) -> Self {
        Self { valid: None, ..self }
    }

    fn new(kind: Kind) -> Self {
        Self { kid: None, kind, valid: None }
    }
}

impl PrivateKey {
    pub(crate) fn from_pkcs8(der: &[u8]) -> Option<Self> {
        if let Ok(pair) = RsaKeyPair::from_pkcs8(der) {
            return Some(Self::Rsa(Box::new(pair)));
        }
        let kind = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        EcdsaKeyPair::from_pkcs8(kind, der, &SystemRandom::new()).ok().map(|pair| Self::P256(Box::new(pair)))
    }

    /// Signs as a vendor would; none for an algorithm that this key is not for, or that nobody should sign with.
    pub(crate) fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match (self, algorithm) {
            (Self::Rsa(pair), Algorithm::RsaSha256) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
            (Self::P256(pair), Algorithm::P256Fixed) => {
                pair.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec())
            }
            _ => None,
        }
    }

    fn public(&self) -> PublicKey {
        PublicKey::new(match self {
            Self::Rsa(pair) => Kind::RsaDer(pair.public().as_ref().to_vec()),
            Self::P256(pair) => Kind::P256(pair.public_key().as_ref().to_vec()),
        })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The first certificate counts, others are its chain; keys count one by one.
fn from_pem(text: &[u8]) -> Option<Keys> {
    let mut keys = Keys::default();
    let mut has_certificate = false;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let (kind, der) = section.ok()?;
        let is_certificate = kind == SectionKind::Certificate;
        if is_certificate && std::mem::replace(&mut has_certificate, true) {
            continue;
        }
        keys.add_der(&der)?;
    }
    Some(keys)
}

fn from_base64(text: &[u8]) -> Option<Keys> {
    let der = base64(text)?;
    let mut keys = Keys::default();
    keys.add_der(&der)?;
    Some(keys)
}

fn from_certificate(der: &[u8]) -> Option<PublicKey> {
    let certificate = Certificate::from_der(der).ok()?;
    let body = &certificate.tbs_certificate;
    let spki = body.subject_public_key_info.to_der().ok()?;
    let millis = |time: Time| UnixMillis::try_from(time.to_unix_duration().as_millis()).unwrap_or(UnixMillis::MAX);
    let valid = millis(body.validity.not_before)..=millis(body.validity.not_after);
    Some(PublicKey { valid: Some(valid), ..from_spki(&spki)? })
}

fn from_spki(der: &[u8]) -> Option<PublicKey> {
    let spki = SubjectPublicKeyInfoRef::from_der(der).ok()?;
    let bytes = spki.subject_public_key.as_bytes()?.to_vec();
    let kind = match spki.algorithm.oid {
        RSA => Kind::RsaDer(bytes),
        EC if spki.algorithm.parameters_oid().ok()? == P256 => Kind::P256(bytes),
        _ => return None,
    };
    Some(PublicKey::new(kind))
}

/// A JSON Web Key, or a set of them; keys of kinds that we do not use are passed over.
#[derive(Deserialize)]
#[serde(untagged)]
enum Jwks {
    Set { keys: Vec<Jwk> },
    One(Jwk),
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn from_json(text: &[u8]) -> Option<Keys> {
    let keys = match serde_json::from_slice(text).ok()? {
        Jwks::Set { keys } if keys.len() <= KEYS_MAX => keys,
        Jwks::Set { .. } => return None,
        Jwks::One(key) => vec![key],
    };
    let public = keys.into_iter().filter_map(Jwk::into_key).collect();
    Some(Keys { public, private: None })
}

impl Jwk {
    fn into_key(self) -> Option<PublicKey> {
        let number = |text: &Option<String>| BASE64URL_NOPAD.decode(text.as_ref()?.as_bytes()).ok();
        if self.r#use.as_deref().is_some_and(|r#use| r#use != "sig") {
            return None;
        }
        let kind = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Kind::RsaNumbers { n: number(&self.n)?, e: number(&self.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (number(&self.x)?, number(&self.y)?);
                if x.len() != 32 || y.len() != 32 {
                    return None;
                }
                Kind::P256([&[4], x.as_slice(), &y].concat())
            }
            _ => return None,
        };
        Some(PublicKey { kid: self.kid, kind, valid: None })
    }
}

#[cfg(test)]
mod tests {
    use testkit::vendor;

    use super::*;

    fn check(text: &str, algorithm: Algorithm) {
        let signer =
            Keys::parse(vendor::key_for(algorithm == Algorithm::P256Fixed).as_bytes()).unwrap().private.unwrap();
        let signature = signer.sign(algorithm, b"hello").unwrap();
        let keys = Keys::parse(text.as_bytes()).unwrap_or_else(|| panic!("no key in {text}"));
        assert_eq!(keys.public.len(), 1, "{text}");
        let key = &keys.public[0];
        assert!(key.verify(algorithm, b"hello", &signature) && key.is_for(algorithm), "{text}");
        assert!(!key.verify(algorithm, b"hellO", &signature), "{text}");
        for other in [Algorithm::RsaSha256, Algorithm::RsaSha1, Algorithm::P256Fixed] {
            assert_eq!(key.verify(other, b"hello", &signature), other == algorithm, "{other:?}");
        }
    }

    #[test]
    fn every_form_of_a_key() {
        for text in [vendor::RSA_KEY, vendor::SNS_CERTIFICATE, vendor::EXPIRED_CERTIFICATE] {
            check(text, Algorithm::RsaSha256);
        }
        check(&vendor::rsa_jwk("k1").to_string(), Algorithm::RsaSha256);
        check(&format!("{}{}", vendor::SNS_CERTIFICATE, vendor::AUTHORITY), Algorithm::RsaSha256);
        let base64: String = vendor::RSA_KEY.lines().filter(|line| !line.starts_with('-')).collect();
        check(&base64, Algorithm::RsaSha256);
        check(vendor::P256_KEY, Algorithm::P256Fixed);
        check(&vendor::p256_jwk("k2").to_string(), Algorithm::P256Fixed);
        let set =
            serde_json::json!({ "keys": [vendor::p256_jwk("k2"), { "kty": "OKP", "crv": "Ed25519", "x": "AA" }] });
        check(&set.to_string(), Algorithm::P256Fixed);
    }

    #[test]
    fn what_is_no_key() {
        for text in
            ["", " ", "hello", "aGVsbG8=", "{}", r#"{"keys":[]}"#, r#"{"kty":"oct","k":"c2VjcmV0"}"#, "-----BEGIN"]
        {
            assert!(Keys::parse(text.as_bytes()).is_none(), "{text}");
        }
        let mut encrypting = vendor::rsa_jwk("k");
        encrypting["use"] = "enc".into();
        assert!(Keys::parse(encrypting.to_string().as_bytes()).is_none());
        assert!(Keys::parse(&vec![b'A'; TEXT_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn from_a_fetched_text_the_first_certificate_alone() {
        let count = |text: &str| Keys::of_certificate(text.as_bytes()).map(|keys| keys.public.len());
        assert_eq!(count(vendor::SNS_CERTIFICATE), Some(1));
        for more in [vendor::RSA_KEY, vendor::AUTHORITY, vendor::P256_KEY] {
            let text = format!("{}{more}", vendor::SNS_CERTIFICATE);
            let keys = Keys::of_certificate(text.as_bytes()).unwrap();
            assert!(keys.public.len() == 1 && keys.private.is_none() && keys.public[0].valid.is_some(), "{text}");
        }
        let base64: String = vendor::SNS_CERTIFICATE.lines().filter(|line| !line.starts_with('-')).collect();
        for text in [vendor::RSA_KEY, &vendor::rsa_jwk("k").to_string(), &base64, ""] {
            assert_eq!(count(text), None, "{text}");
        }
    }

    #[test]
    fn a_certificate_has_dates() {
        let at = 1_731_700_000_000;
        let key = |text: &str| Keys::parse(text.as_bytes()).unwrap().public.remove(0);
        assert!(key(vendor::SNS_CERTIFICATE).is_valid_at(at));
        assert!(!key(vendor::EXPIRED_CERTIFICATE).is_valid_at(at));
        assert!(key(vendor::EXPIRED_CERTIFICATE).trusted().is_valid_at(at));
    }
}
