//! The two listeners: the public one takes webhooks in, the admin one is for people and machines of the house.

mod actions;
pub(crate) mod admin;
pub(crate) mod answer;
pub(crate) mod api;
mod arm;
pub(crate) mod body;
pub(crate) mod budget;
mod client;
mod dashboard;
mod erase;
pub(crate) mod guard;
pub(crate) mod listener;
mod login;
mod login_limit;
mod openapi;
pub(crate) mod problem;
mod prompt_reader;
pub(crate) mod public;
pub(crate) mod pull;
mod ready;
mod retention;
pub(crate) mod session;
pub(crate) mod strict_head;
mod submitted;
mod tail;
