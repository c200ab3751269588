//! The process itself: its config, its schema, its files, its end.

mod config;
mod migrating;
mod private_files;
mod stop;
