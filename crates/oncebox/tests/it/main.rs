//! The only integration test binary of the library: one file per part, listed here.

mod tidy;
