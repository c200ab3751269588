//! Commands that look and change nothing.

pub(crate) mod audit_log;
pub(crate) mod dead_letters;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod held;
pub(crate) mod outbox;
pub(crate) mod status;
pub(crate) mod tail;
