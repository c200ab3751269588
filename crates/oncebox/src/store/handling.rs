//! What workers and consumers do with deliveries: claim, run, finish, fail, extend and give back.

pub(super) mod attempts;
pub(super) mod begun;
pub(super) mod deliveries;
pub(super) mod effects;
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only Postgres runs blocks"))]
pub(super) mod handler_block;
pub(super) mod handler_sql;
pub(super) mod handlers;
pub(super) mod leases;
pub(super) mod order;
pub(super) mod pull;
