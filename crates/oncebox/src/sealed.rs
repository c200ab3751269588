//! Keeps a secret unreadable in the database: AES-256-GCM under a key that only the config has.
//!
//! The source's name is bound in, so that a row cannot be moved to another source.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, Encoding, HEXLOWER_PERMISSIVE};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

use oncebox_verify::Secret;

/// What the key is for; a new form of sealing gets a new word.
const PURPOSE: &[u8] = b"oncebox arrived secret v1";

/// Seals and opens secrets.
#[derive(Clone, Debug)]
pub struct Sealer {
    key: LessSafeKey,
}

/// True for a key that nobody guesses who has the database: 32 bytes or more in base64, or 20 and more in hex, which is
/// what `dev` makes.
///
/// The key is not stretched, so that a word of a person is found offline. Whether bytes are random cannot be told, but a
/// word seldom has the form.
pub fn is_strong(secret_key: &Secret) -> bool {
    let text = secret_key.expose().trim_ascii();
    let holds = |form: &Encoding, least: usize| form.decode(text).is_ok_and(|bytes| bytes.len() >= least);
    let base64 = [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD];
    holds(&HEXLOWER_PERMISSIVE, 20) || base64.iter().any(|form| holds(form, 32))
}

impl Sealer {
    /// Derives the key from the operator's `secret_key`; none when that is blank.
    pub fn new(secret_key: &Secret) -> Option<Self> {
        if secret_key.is_blank() {
            return None;
        }
        let derived = Salt::new(HKDF_SHA256, &[]).extract(secret_key.expose());
        let key = UnboundKey::from(derived.expand(&[PURPOSE], &AES_256_GCM).ok()?);
        Some(Self { key: LessSafeKey::new(key) })
    }

    /// Seals a source's secret under a fresh nonce; none when the system has no randomness.
    pub fn seal(&self, source: &str, secret: &Secret) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut bytes = secret.expose().to_vec();
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(sealing, Aad::from(source.as_bytes()), &mut bytes).ok()?;
        Some([&nonce[..], &bytes].concat())
    }

    /// Opens what was sealed for this source; none with another key, for another source, or after damage.
    pub fn open(&self, source: &str, sealed: &[u8]) -> Option<Secret> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(source.as_bytes()), &mut bytes).ok()?;
        Some(Secret::new(&*opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_in_hex_or_base64() {
        let base64 = BASE64.encode(&[0xfb; 32]);
        for (key, expected) in [
            ("ab".repeat(32).as_str(), true),
            ("AB".repeat(32).as_str(), true),
            (base64.as_str(), true),
            (base64.trim_end_matches('='), true),
            (BASE64URL_NOPAD.encode(&[0xfb; 32]).as_str(), true),
            ("ab".repeat(15).as_str(), false),
            ("k", false),
            ("correct horse battery staple and some more words", false),
        ] {
            assert_eq!(is_strong(&Secret::new(key)), expected, "{key}");
        }
    }

    #[test]
    fn opens_only_for_its_source_and_key() {
        let sealer = Sealer::new(&Secret::new("k1")).unwrap();
        let sealed = sealer.seal("asana", &Secret::new("hunter2")).unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(sealer.open("asana", &sealed).unwrap().expose(), b"hunter2");
        assert!(sealer.open("notion", &sealed).is_none());
        assert!(Sealer::new(&Secret::new("k2")).unwrap().open("asana", &sealed).is_none());
        let mut damaged = sealed.clone();
        damaged[NONCE_LEN] ^= 1;
        assert!(sealer.open("asana", &damaged).is_none() && sealer.open("asana", &[]).is_none());
        assert_ne!(sealed, sealer.seal("asana", &Secret::new("hunter2")).unwrap());
        assert!(Sealer::new(&Secret::new(" ")).is_none());
    }
}
