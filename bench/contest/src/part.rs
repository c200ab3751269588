//! What is measured, one file for each group.

pub(crate) mod growth;
pub(crate) mod ledger;
pub(crate) mod queue;
pub(crate) mod receiving;
pub(crate) mod turns;
