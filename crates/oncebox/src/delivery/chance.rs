//! Chance for the pauses between attempts.

use ring::rand::{SecureRandom as _, SystemRandom};

/// A number out of the whole range. Where there is no chance every pause is at its longest, which is the safe side.
pub(crate) fn chance() -> u64 {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_or(u64::MAX, |()| u64::from_le_bytes(bytes))
}
