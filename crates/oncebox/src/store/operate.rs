//! What operators change: replay, backfill, release, forget, erase; and what alerts remember.

pub(super) mod action_filter;
pub(super) mod actions;
pub(super) mod alerts;
pub(super) mod backfill;
pub(super) mod conflicts;
pub(super) mod erase;
pub(super) mod forget;
pub(super) mod hurry;
pub(super) mod message_actions;
