//! What worker and relay share: the loop in the background, and what slows a target down or spares it.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod background;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod begun;
pub mod circuit;
pub mod rate;
