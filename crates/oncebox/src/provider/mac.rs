//! The primitives: keyed digests, plain digests, public-key signatures, shared tokens.
//!
//! The algorithm comes from the description and never from the request. Signatures are decoded first and compared as
//! bytes in constant time. Hex is read in either case; base64 must be padded, in the standard alphabet and without
//! white space; base64url must be unpadded.

use std::borrow::Cow;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD, Encoding as Code, HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::{digest, hmac, signature};
use subtle::ConstantTimeEq;

use crate::secret::Secret;

/// How a message is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mac {
    /// HMAC with SHA-256.
    HmacSha256,
    /// HMAC with SHA-1, where a vendor offers nothing better.
    HmacSha1,
    /// HMAC with SHA-512.
    HmacSha512,
    /// A plain SHA-1 over a message that holds the secret.
    Sha1,
    /// A plain SHA-256 over a message that holds the secret.
    Sha256,
    /// Ed25519; the secret is the vendor's public key.
    Ed25519,
    /// ECDSA on P-256 with SHA-256, signature in DER; the secret is the vendor's public key.
    EcdsaP256,
    /// The carrier holds the secret itself.
    Equal,
    /// HTTP basic authentication; the secret is `user:password`.
    Basic,
}

/// How signatures are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Hexadecimal, either case.
    #[default]
    Hex,
    /// Padded base64.
    Base64,
    /// Unpadded base64 in the URL alphabet.
    Base64Url,
}

/// How a secret's text becomes key bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// The text itself.
    #[default]
    Utf8,
    /// Hexadecimal.
    Hex,
    /// Base64.
    Base64,
    /// Base64 behind an optional `whsec_`.
    Whsec,
}

/// A key ready for use.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    mac: Mac,
    bytes: Secret,
    hmac: Option<hmac::Key>,
}

/// A message in pieces.
pub(crate) type Message<'a> = [Cow<'a, [u8]>];

impl Encoding {
    /// Decodes a signature; none unless it has exactly this form.
    pub(crate) fn decode(self, text: &str) -> Option<Vec<u8>> {
        // The decoder would take several padded texts in a row as one.
        let padded_inside = text.trim_end_matches('=').contains('=');
        if padded_inside { None } else { self.code().decode(text.as_bytes()).ok() }
    }

    /// Encodes a signature as vendors do, hex in lower case.
    pub(crate) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => HEXLOWER.encode(bytes),
            Self::Base64 | Self::Base64Url => self.code().encode(bytes),
        }
    }

    fn code(self) -> Code {
        match self {
            Self::Hex => HEXLOWER_PERMISSIVE,
            Self::Base64 => BASE64,
            Self::Base64Url => BASE64URL_NOPAD,
        }
    }
}

impl KeyForm {
    /// The key bytes in a secret's text.
    pub(crate) fn decode(self, secret: &[u8]) -> Option<Vec<u8>> {
        let base64 = |text: &[u8]| BASE64.decode(text).or_else(|_padded| BASE64_NOPAD.decode(text)).ok();
        match self {
            Self::Utf8 => Some(secret.to_vec()),
            Self::Hex => HEXLOWER_PERMISSIVE.decode(secret).ok(),
            Self::Base64 => base64(secret),
            Self::Whsec => base64(secret.strip_prefix(b"whsec_").unwrap_or(secret)),
        }
    }
}

impl Mac {
    /// True when the carrier holds the secret itself, so nothing covers the body.
    pub(crate) fn is_token(self) -> bool {
        matches!(self, Self::Equal | Self::Basic)
    }
}

impl Key {
    /// Prepares a key; none when the bytes cannot be one.
    pub(crate) fn new(mac: Mac, form: KeyForm, secret: &Secret) -> Option<Self> {
        let mut bytes = form.decode(secret.expose()).filter(|bytes| !bytes.is_empty())?;
        let algorithm = match mac {
            Mac::HmacSha256 => Some(hmac::HMAC_SHA256),
            Mac::HmacSha512 => Some(hmac::HMAC_SHA512),
            Mac::HmacSha1 => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            _ => None,
        };
        match mac {
            Mac::Ed25519 => bytes = point(bytes, &ED25519_PREFIX, 32)?,
            Mac::EcdsaP256 => bytes = point(bytes, &P256_PREFIX, 65)?,
            _ => {}
        }
        let hmac = algorithm.map(|algorithm| hmac::Key::new(algorithm, &bytes));
        Some(Self { mac, bytes: Secret::new(bytes), hmac })
    }

    /// The key's own bytes, for messages that hold the secret.
    pub(crate) fn expose(&self) -> &[u8] {
        self.bytes.expose()
    }

    /// True when one of the signatures belongs to the message.
    pub(crate) fn verify(&self, message: &Message<'_>, signatures: &[Vec<u8>]) -> bool {
        match self.mac {
            Mac::Ed25519 => self.verify_public(&signature::ED25519, message, signatures),
            Mac::EcdsaP256 => self.verify_public(&signature::ECDSA_P256_SHA256_ASN1, message, signatures),
            _ => {
                let Some(expected) = self.sign(message) else { return false };
                // Every one is compared, so that the time tells nothing about which was right.
                signatures.iter().fold(false, |found, given| bool::from(given.as_slice().ct_eq(&expected)) | found)
            }
        }
    }

    /// The signature of a message; none for public-key algorithms, where only the vendor can sign.
    pub(crate) fn sign(&self, message: &Message<'_>) -> Option<Vec<u8>> {
        match (self.mac, &self.hmac) {
            (_, Some(key)) => {
                let mut context = hmac::Context::with_key(key);
                message.iter().for_each(|piece| context.update(piece));
                Some(context.sign().as_ref().to_vec())
            }
            (Mac::Sha1, None) => Some(plain(&digest::SHA1_FOR_LEGACY_USE_ONLY, message)),
            (Mac::Sha256, None) => Some(plain(&digest::SHA256, message)),
            (Mac::Equal | Mac::Basic, None) => Some(self.bytes.expose().to_vec()),
            _ => None,
        }
    }

    fn verify_public(
        &self,
        algorithm: &'static dyn signature::VerificationAlgorithm,
        message: &Message<'_>,
        signatures: &[Vec<u8>],
    ) -> bool {
        let key = signature::UnparsedPublicKey::new(algorithm, self.bytes.expose());
        let message = message.concat();
        signatures.iter().any(|given| key.verify(&message, given).is_ok())
    }
}

fn plain(algorithm: &'static digest::Algorithm, message: &Message<'_>) -> Vec<u8> {
    let mut context = digest::Context::new(algorithm);
    message.iter().for_each(|piece| context.update(piece));
    context.finish().as_ref().to_vec()
}

/// What stands before the point in the standard wrapping (SPKI) of a public key.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The bare point of a public key, wrapped or not.
fn point(bytes: Vec<u8>, prefix: &[u8], length: usize) -> Option<Vec<u8>> {
    let bare = bytes.strip_prefix(prefix).unwrap_or(&bytes);
    (bare.len() == length).then(|| bare.to_vec())
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::KeyPair;

    use super::*;

    fn check(mac: Mac, public: &[u8], signature: &[u8]) {
        let message = [Cow::Borrowed(b"hello".as_slice())];
        let other = [Cow::Borrowed(b"hellO".as_slice())];
        let key = Key::new(mac, KeyForm::Utf8, &Secret::new(public)).unwrap();
        assert!(key.verify(&message, &[signature.to_vec()]));
        assert!(!key.verify(&other, &[signature.to_vec()]));
        assert!(!key.verify(&message, &[signature[1..].to_vec(), Vec::new()]));
    }

    #[test]
    fn public_keys_wrapped_and_bare() {
        let random = SystemRandom::new();
        let document = signature::Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = signature::Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let signed = pair.sign(b"hello");
        check(Mac::Ed25519, pair.public_key().as_ref(), signed.as_ref());
        check(Mac::Ed25519, &[&ED25519_PREFIX, pair.public_key().as_ref()].concat(), signed.as_ref());

        let kind = &signature::ECDSA_P256_SHA256_ASN1_SIGNING;
        let document = signature::EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = signature::EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap();
        let signed = pair.sign(&random, b"hello").unwrap();
        check(Mac::EcdsaP256, pair.public_key().as_ref(), signed.as_ref());
        check(Mac::EcdsaP256, &[&P256_PREFIX, pair.public_key().as_ref()].concat(), signed.as_ref());
    }

    #[test]
    fn encodings_are_strict() {
        assert_eq!(Encoding::Hex.decode("0aFf"), Some(vec![10, 255]));
        for (encoding, text) in [
            (Encoding::Hex, "0"),
            (Encoding::Hex, "0g"),
            (Encoding::Base64, "_-8="),
            (Encoding::Base64, "YQ"),
            (Encoding::Base64, "YQ=\n="),
            (Encoding::Base64, "YQ==YQ=="),
            (Encoding::Base64Url, "YQ=="),
            (Encoding::Base64Url, "+/8"),
        ] {
            assert_eq!(encoding.decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_one_is_refused() {
        for (mac, form, secret) in [
            (Mac::HmacSha256, KeyForm::Hex, "xyz"),
            (Mac::HmacSha256, KeyForm::Whsec, "whsec_"),
            (Mac::HmacSha256, KeyForm::Whsec, "whsec_!"),
            (Mac::Ed25519, KeyForm::Hex, "00"),
            (Mac::EcdsaP256, KeyForm::Base64, "AAAA"),
        ] {
            assert!(Key::new(mac, form, &Secret::new(secret)).is_none(), "{secret}");
        }
    }
}
