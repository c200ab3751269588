//! Judges webhook requests: is this really from that sender, and which event is it?
//!
//! A [`Source`] is one configured sender: a name, a provider and its secrets. [`Source::judge`] verifies a [`Request`] over
//! its raw bytes, checks the time window, and gives each event an [`Identity`], a key of fixed size by which duplicates are
//! found. It is pure: no clock, no network, no database, no runtime. What it lacks, such as a vendor's key that must be
//! fetched first, it says ([`Verdict::NeedsKey`]).
//!
//! ```
//! use oncebox_verify::{Sample, Secret, Source, Verdict, sample};
//!
//! let source = Source::of_provider("payments", "stripe", [Secret::new("whsec_0123456789abcdef")])?;
//!
//! // What Stripe would send; a server builds the request from what it received.
//! let now = 1_700_000_000_000;
//! let draft = sample(&source, &Sample { id: "evt_1", event_type: None, filler_bytes: 0 }, now);
//! let request = source.sign(draft, now)?;
//!
//! let Verdict::Accept(accepted) = source.judge(&request, None, now) else { return Err("refused".into()) };
//! assert_eq!(accepted.events[0].event_id, "evt_1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A provider is data: a [`Description`] out of the catalogue ([`provider_names`]), a user's own, or one overriding the
//! other. The few schemes that cannot be described as data have a file of their own in `provider/vendor/`.
//!
//! What a caller has to act on ([`Verdict`], [`Reason`], [`OnRepeat`]) is exhaustive on purpose: a new case is a compile error, not
//! a silent `_`.

#[doc(hidden)]
pub mod calendar;
mod digest;
mod provider;
mod read;
mod request;
mod secret;
mod source;
mod tools;
#[doc(hidden)]
pub mod units;
mod verdict;

pub use digest::{Digest, Fingerprint, Identity, sha256};
#[doc(hidden)]
pub use digest::{joined_id, key};
pub use provider::catalogue::provider_names;
pub use provider::description::facts::Facts;
pub use provider::description::{Description, Problem, SETTINGS, SecretForm};
pub use provider::scheme::mac::webhook_key;
pub use provider::sign::{Draft, SignError};
pub use provider::spec::SourceSpec;
pub use read::pointer::BodyPointer;
pub use request::Request;
pub use secret::Secret;
pub use source::{HeadVerdict, Source, SourceError};
pub use tools::diagnose::likely_cause;
pub use tools::sample::{Sample, id_for, sample, sample_settings};
pub use verdict::*;

/// Milliseconds since 1970.
pub type UnixMillis = i64;
