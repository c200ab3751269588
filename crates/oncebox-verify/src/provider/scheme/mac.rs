//! The primitives: keyed digests, plain digests, public-key signatures, shared tokens.
//!
//! The algorithm comes from the description and never from the request. Signatures are decoded first and compared as
//! bytes in constant time. Hex is read in either case; base64 must be padded, in the standard alphabet and without
//! white space; base64url must be unpadded.

use std::borrow::Cow;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD, Encoding as Code, HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::{digest, hmac};
use subtle::ConstantTimeEq;

use crate::provider::keys::curve::{Curve, PublicKey};
use crate::secret::Secret;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mac {
    HmacSha256,
    /// HMAC with SHA-1, where a vendor offers nothing better.
    HmacSha1,
    HmacSha512,
    /// A plain SHA-1 over a message that holds the secret.
    Sha1,
    /// A plain SHA-256 over a message that holds the secret.
    Sha256,
    /// A public-key signature; the secret is the vendor's public key.
    Public(Curve),
    /// The carrier holds the secret itself.
    Equal,
    /// HTTP basic authentication; the secret is `user:password`.
    Basic,
    /// Nothing is signed: the sender is known by the token in the URL alone.
    Nothing,
}

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
    #[default]
    Utf8,
    Hex,
    Base64,
    /// Base64 behind an optional `whsec_` (or `whpk_`, for public keys).
    Whsec,
    /// Base64 behind `whsec_`, and the text itself where that is missing.
    WhsecOrUtf8,
    /// The text after compatibility decomposition. Only ASCII is taken, which that leaves as it is.
    Nfkd,
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    mac: Mac,
    bytes: Secret,
    hmac: Option<hmac::Key>,
    public: Option<PublicKey>,
}

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

/// The key in a secret as Standard Webhooks writes it: base64, with or without `whsec_` in front; any other text is the key
/// itself.
pub fn webhook_key(secret: &Secret) -> Vec<u8> {
    let decoded = KeyForm::Whsec.decode(secret.expose()).filter(|bytes| !bytes.is_empty());
    decoded.unwrap_or_else(|| secret.expose().to_vec())
}

impl KeyForm {
    pub(crate) fn decode(self, secret: &[u8]) -> Option<Vec<u8>> {
        let after = |prefix: &[u8]| secret.strip_prefix(prefix);
        match self {
            Self::Utf8 => Some(secret.to_vec()),
            Self::Hex => HEXLOWER_PERMISSIVE.decode(secret).ok(),
            Self::Base64 => base64(secret),
            Self::Whsec => base64(after(b"whsec_").or_else(|| after(b"whpk_")).unwrap_or(secret)),
            Self::WhsecOrUtf8 => after(b"whsec_").map_or_else(|| Some(secret.to_vec()), base64),
            Self::Nfkd => secret.is_ascii().then(|| secret.to_vec()),
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
        if let Mac::Public(curve) = mac {
            let public = Some(PublicKey::new(curve, secret.expose())?);
            return Some(Self { mac, bytes: Secret::new(Vec::new()), hmac: None, public });
        }
        let bytes = form.decode(secret.expose()).filter(|bytes| !bytes.is_empty())?;
        let algorithm = match mac {
            Mac::HmacSha256 => Some(hmac::HMAC_SHA256),
            Mac::HmacSha512 => Some(hmac::HMAC_SHA512),
            Mac::HmacSha1 => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            _ => None,
        };
        let hmac = algorithm.map(|algorithm| hmac::Key::new(algorithm, &bytes));
        Some(Self { mac, bytes: Secret::new(bytes), hmac, public: None })
    }

    /// The key's own bytes, for messages that hold the secret.
    pub(crate) fn expose(&self) -> &[u8] {
        self.bytes.expose()
    }

    pub(crate) fn verify(&self, message: &Message<'_>, signatures: &[Vec<u8>]) -> bool {
        if let Some(public) = &self.public {
            return public.verify(message, signatures);
        }
        // Every one is compared, so that the time tells nothing about which was right.
        let holds = |expected: &[u8]| {
            signatures.iter().fold(false, |found, given| bool::from(given.as_slice().ct_eq(expected)) | found)
        };
        match &self.hmac {
            Some(key) => holds(keyed(key, message).as_ref()),
            None => self.sign(message).is_some_and(|expected| holds(&expected)),
        }
    }

    /// The signature of a message; none where only the vendor's private key could make it.
    pub(crate) fn sign(&self, message: &Message<'_>) -> Option<Vec<u8>> {
        match (self.mac, &self.hmac) {
            (_, Some(key)) => Some(keyed(key, message).as_ref().to_vec()),
            (Mac::Sha1, None) => Some(plain(&digest::SHA1_FOR_LEGACY_USE_ONLY, message)),
            (Mac::Sha256, None) => Some(plain(&digest::SHA256, message)),
            (Mac::Equal | Mac::Basic, None) => Some(self.bytes.expose().to_vec()),
            (Mac::Public(_), None) => self.public.as_ref()?.sign(message),
            _ => None,
        }
    }
}

/// Base64 with or without its padding.
pub(crate) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).or_else(|_padded| BASE64_NOPAD.decode(text)).ok()
}

fn keyed(key: &hmac::Key, message: &Message<'_>) -> hmac::Tag {
    if let [whole] = message {
        return hmac::sign(key, whole);
    }
    let mut context = hmac::Context::with_key(key);
    message.iter().for_each(|piece| context.update(piece));
    context.sign()
}

fn plain(algorithm: &'static digest::Algorithm, message: &Message<'_>) -> Vec<u8> {
    let mut context = digest::Context::new(algorithm);
    message.iter().for_each(|piece| context.update(piece));
    context.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (Mac::HmacSha256, KeyForm::Nfkd, "Å"),
            (Mac::HmacSha256, KeyForm::WhsecOrUtf8, "whsec_!"),
            (Mac::Public(Curve::Ed25519), KeyForm::Hex, "00"),
            (Mac::Public(Curve::P256), KeyForm::Base64, "AAAA"),
        ] {
            assert!(Key::new(mac, form, &Secret::new(secret)).is_none(), "{secret}");
        }
    }
}
