//! What is not on the path of a request: samples, and why a request was refused.

pub(super) mod diagnose;
pub(super) mod sample;
pub(super) mod spelling;
