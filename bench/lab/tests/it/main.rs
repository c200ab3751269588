//! The laboratory as it is used: its commands, and the rows that its filler writes.

mod commands;
mod fill;
