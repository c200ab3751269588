//! The program `oncebox`: parse the command line, run the command.

mod config;

fn main() {}
