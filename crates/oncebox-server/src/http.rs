//! The two listeners: the public one takes webhooks in, the admin one is for people and machines of the house.

pub mod admin;
pub mod answer;
pub mod api;
pub mod body;
pub mod listener;
pub mod problem;
pub mod public;
pub mod strict_head;
