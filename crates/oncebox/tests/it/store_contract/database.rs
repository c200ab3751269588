//! The database below the verbs: its schema, its connections, its durability, and a copy of it.

mod backup;
mod cancel;
mod durability;
mod migrate;
mod overlap;
mod sessions;
mod tls;
