//! Commands by which a person changes what happens.

pub(crate) mod actions;
pub(crate) mod arm;
pub(crate) mod erase;
pub(crate) mod pause;
pub(crate) mod reconcile;
pub(crate) mod retention;
