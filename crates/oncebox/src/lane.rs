//! What worker and relay share: the loop in the background, how ends are written down, and what slows a target down or
//! spares it.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod background;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod begun;
pub mod circuit;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod completer;
pub mod rate;
