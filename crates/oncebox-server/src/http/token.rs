//! Bytes that nobody can guess: sessions, forms, development tokens.

use std::io;

use ring::rand::{SecureRandom as _, SystemRandom};

pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(ring::error::Unspecified) => Err(io::Error::other("the system has no randomness")),
    }
}
