//! Keeps a secret unreadable in the database: AES-256-GCM under a key that only the config has.
//!
//! The source's name is bound in, so that a row cannot be moved to another source.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::secret::Secret;

/// What the key is for; a new form of sealing gets a new word.
const PURPOSE: &[u8] = b"oncebox arrived secret v1";

/// Seals and opens secrets.
#[derive(Clone, Debug)]
pub struct Sealer {
    key: LessSafeKey,
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
