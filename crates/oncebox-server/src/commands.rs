//! The commands, one file each.

pub(crate) mod check;
pub(crate) mod dev;
pub(crate) mod migrate;
pub(crate) mod serve;
