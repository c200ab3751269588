//! Public keys in the wrappings people copy them in: hex, base64, with or without the standard header (SPKI), PEM.
//!
//! For tests and sample senders a private key (PKCS#8, PEM or base64) may stand in its place: it signs, and its public
//! half verifies. A vendor's private key never reaches a receiver, so nothing is weakened by that.

use std::sync::Arc;

use data_encoding::HEXLOWER_PERMISSIVE;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    UnparsedPublicKey, VerificationAlgorithm,
};
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::spki::SubjectPublicKeyInfoRef;

use super::public_key::{EC, P256};
use crate::provider::scheme::mac::{Message, base64};

const ED25519_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    Ed25519,
    /// ECDSA on P-256 with SHA-256, signature in DER.
    P256,
}

#[derive(Clone, Debug)]
pub(crate) struct PublicKey {
    curve: Curve,
    point: Vec<u8>,
    pair: Option<Arc<Pair>>,
}

#[derive(Debug)]
enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl PublicKey {
    /// Reads a key in any of its wrappings; none when it is no key of this curve.
    pub(crate) fn new(curve: Curve, text: &[u8]) -> Option<Self> {
        let public = |point: &[u8]| Self { curve, point: point.to_vec(), pair: None };
        wrappings(text).iter().find_map(|bytes| curve.point(bytes).map(public).or_else(|| Self::private(curve, bytes)))
    }

    pub(crate) fn verify(&self, message: &Message<'_>, signatures: &[Vec<u8>]) -> bool {
        let algorithm: &'static dyn VerificationAlgorithm = match self.curve {
            Curve::Ed25519 => &ED25519,
            Curve::P256 => &ECDSA_P256_SHA256_ASN1,
        };
        let key = UnparsedPublicKey::new(algorithm, &self.point);
        let message = message.concat();
        signatures.iter().any(|given| key.verify(&message, given).is_ok())
    }

    /// The signature of a message; none without the private key.
    pub(crate) fn sign(&self, message: &Message<'_>) -> Option<Vec<u8>> {
        let message = message.concat();
        match self.pair.as_deref()? {
            Pair::Ed25519(pair) => Some(pair.sign(&message).as_ref().to_vec()),
            Pair::P256(pair) => pair.sign(&SystemRandom::new(), &message).ok().map(|made| made.as_ref().to_vec()),
        }
    }

    fn private(curve: Curve, bytes: &[u8]) -> Option<Self> {
        let (point, pair) = match curve {
            Curve::Ed25519 => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes).ok()?;
                (pair.public_key().as_ref().to_vec(), Pair::Ed25519(pair))
            }
            Curve::P256 => {
                let random = SystemRandom::new();
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, bytes, &random).ok()?;
                (pair.public_key().as_ref().to_vec(), Pair::P256(pair))
            }
        };
        Some(Self { curve, point, pair: Some(Arc::new(pair)) })
    }
}

impl Curve {
    /// The bare point of a public key, in its standard wrapping (SPKI) or without.
    fn point(self, bytes: &[u8]) -> Option<&[u8]> {
        let length = if self == Self::Ed25519 { 32 } else { 65 };
        let wrapped = SubjectPublicKeyInfoRef::from_der(bytes).ok();
        let inner = wrapped.filter(|spki| self.is_named_by(spki)).and_then(|spki| spki.subject_public_key.as_bytes());
        inner.or(Some(bytes)).filter(|point| point.len() == length)
    }

    fn is_named_by(self, spki: &SubjectPublicKeyInfoRef<'_>) -> bool {
        let named = &spki.algorithm;
        match self {
            Self::Ed25519 => named.oid == ED25519_OID && named.parameters.is_none(),
            Self::P256 => named.oids().is_ok_and(|oids| oids == (EC, Some(P256))),
        }
    }
}

/// The bytes that a text may stand for. Bare bytes are tried as they came before anything is cut off, because a key's
/// own first or last byte may look like a space or a line feed.
fn wrappings(raw: &[u8]) -> Vec<Vec<u8>> {
    let text = raw.trim_ascii();
    let pem = std::str::from_utf8(text).ok().and_then(pem);
    let bare = text.strip_prefix(b"whpk_").unwrap_or(text);
    let decoded = [pem, HEXLOWER_PERMISSIVE.decode(text).ok(), base64(bare), Some(raw.to_vec()), Some(text.to_vec())];
    decoded.into_iter().flatten().collect()
}

/// What stands between the lines of a PEM text. Those of a variable have often become one line, which no library reads.
fn pem(text: &str) -> Option<Vec<u8>> {
    let (label, rest) = text.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    let (inner, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let inner: Vec<u8> = inner.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    base64(&inner)
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE64, HEXLOWER};

    use super::*;

    /// What stands before the point in the standard wrapping.
    const ED25519_HEADER: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    const P256_HEADER: [u8; 26] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];

    /// Every wrapping of the public key verifies what every wrapping of the private key signs.
    fn check(curve: Curve, private: &[u8], header: &[u8]) {
        let pem = |label: &str, bytes: &[u8]| {
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64.encode(bytes))
        };
        let point = PublicKey::new(curve, private).unwrap().point;
        let wrapped = [header, &point].concat();
        let publics = [
            point.clone(),
            HEXLOWER.encode(&point).into(),
            BASE64.encode(&point).into(),
            BASE64.encode(&wrapped).into(),
            pem("PUBLIC KEY", &wrapped).into(),
            pem("PUBLIC KEY", &wrapped).replace('\n', " ").into(),
        ];
        for private in [private.to_vec(), BASE64.encode(private).into(), pem("PRIVATE KEY", private).into()] {
            let signature = PublicKey::new(curve, &private).unwrap().sign(&[b"hello".into()]).unwrap();
            for public in &publics {
                let key = PublicKey::new(curve, public).unwrap();
                assert!(key.verify(&[b"hel".into(), b"lo".into()], std::slice::from_ref(&signature)));
                assert!(!key.verify(&[b"hello!".into()], std::slice::from_ref(&signature)));
                assert!(!key.verify(&[b"hello".into()], &[signature[1..].to_vec(), Vec::new()]));
                assert!(key.sign(&[b"hello".into()]).is_none());
            }
        }
    }

    /// A private key whose public half is taken by `fits`.
    fn made(make: impl Fn() -> Vec<u8>, curve: Curve, fits: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let fits = |private: &Vec<u8>| fits(&PublicKey::private(curve, private).unwrap().point);
        std::iter::repeat_with(make).find(fits).unwrap()
    }

    #[test]
    fn bare_keys_may_begin_and_end_like_blanks() {
        let random = SystemRandom::new();
        let ed25519 = || Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref().to_vec();
        let p256 = || EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap().as_ref().to_vec();
        let is_blank = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_whitespace);
        check(Curve::Ed25519, &made(ed25519, Curve::Ed25519, |point| is_blank(point.first())), &ED25519_HEADER);
        check(Curve::Ed25519, &made(ed25519, Curve::Ed25519, |point| is_blank(point.last())), &ED25519_HEADER);
        check(Curve::P256, &made(p256, Curve::P256, |point| is_blank(point.last())), &P256_HEADER);
    }

    #[test]
    fn keys_in_every_wrapping() {
        let random = SystemRandom::new();
        let private = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        check(Curve::Ed25519, private.as_ref(), &ED25519_HEADER);
        let private = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        check(Curve::P256, private.as_ref(), &P256_HEADER);
        let of_another_curve = [&P256_HEADER[..], &[4; 65]].concat();
        assert!(PublicKey::new(Curve::P256, &of_another_curve).is_some());
        assert!(PublicKey::new(Curve::Ed25519, &of_another_curve).is_none());
        for wrong in ["", "00", "-----BEGIN PUBLIC KEY-----", "-----BEGIN A-----\nAAAA\n-----END A-----"] {
            assert!(PublicKey::new(Curve::Ed25519, wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
