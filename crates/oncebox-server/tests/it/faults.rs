//! What dies, fails or goes away under the running server: the process, its disk, its database.

mod crash_points;
mod failover;
mod file_gone;
mod flush;
mod hosts;
mod kill;
mod lost_claims;
mod outage;
mod sessions;
